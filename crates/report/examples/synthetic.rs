//! Draws the report and the comparison of made-up recordings into a directory, to look at:
//! `cargo run -p narrows-report --example synthetic -- DIR`.

#[path = "../../measure/tests/synthetic/mod.rs"]
mod synthetic;

use std::path::PathBuf;

use measure::{Analysis, Recording};
use report::Comparison;
use synthetic::{Wish, record};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = PathBuf::from(std::env::args().nth(1).ok_or("give a directory")?);
    let full = Wish { spoiled: vec![100, 313], ..Wish::default() };
    let repeated =
        Wish { repeats: 5, losses: vec![0, 3, 7], seed: 7, overlay: 0.93, version: "0.2.0".into(), ..full.clone() };
    for (name, wish) in [("full", &full), ("repeated", &repeated)] {
        record(&dir.join(name), wish);
        report::write(&dir.join(name))?;
    }
    let (a, b) = (Recording::load(&dir.join("full"))?, Recording::load(&dir.join("repeated"))?);
    let (of_a, of_b) = (Analysis::of(&a), Analysis::of(&b));
    std::fs::write(dir.join("compare.html"), Comparison::of((&a, &of_a), (&b, &of_b)).html())?;
    Ok(())
}
