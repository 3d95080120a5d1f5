//! Profile 0x0006 from outside: what goes in comes out, at what price, and never anything else.

mod allocation;
mod any;
mod behaviour;
mod feedback;
mod flows;
mod losses;
mod segments;
mod vectors;
#[path = "../common/warm.rs"]
mod warm;
