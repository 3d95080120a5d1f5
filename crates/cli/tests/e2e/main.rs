//! The `narrows` command from outside: what a user types, and what is there afterwards.
//!
//! Tests that need more than this machine gives print why they are skipped. Those that measure
//! take turns, so that they do not disturb each other. Figures of a cell that narrows itself calls
//! spoiled are not judged here either: on a busy machine that is the right answer.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "says what is skipped; helpers of tests may panic too")]

mod adapter;
mod common;
mod families;
mod faults;
mod input;
mod link;
mod load;
mod measured;
mod narrowband;
mod probe;
mod programs;
mod rohc;
mod run;
mod simulated;
mod tools;
mod trace;
mod traces;
mod upf;
mod user_plane;
