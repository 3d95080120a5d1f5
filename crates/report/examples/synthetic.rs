//! Draws the report and the comparison of made-up recordings into a directory, to look at:
//! `cargo run -p narrows-report --example synthetic -- DIR`.

#[path = "../../measure/tests/synthetic/mod.rs"]
mod synthetic;

use std::path::PathBuf;

use measure::{Analysis, Recording, write_whole};
use synthetic::{Wish, record};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = PathBuf::from(std::env::args().nth(1).ok_or("give a directory")?);
    let full = Wish { spoiled: vec![100, 313], ..Wish::default() };
    let repeated =
        Wish { repeats: 5, losses: vec![0, 3, 7], seed: 7, overlay: 0.93, version: "0.2.0".into(), ..full.clone() };
    let mut recordings = Vec::new();
    for (name, wish) in [("full", &full), ("repeated", &repeated)] {
        let results = dir.join(name);
        record(&results, wish);
        let recording = Recording::load(&results)?;
        write_whole(&results.join("report.html"), report::page(&recording, &Analysis::of(&recording)).as_bytes())?;
        recordings.push(recording);
    }
    write_whole(&dir.join("compare.html"), report::comparison(&recordings[0], &recordings[1]).as_bytes())?;
    Ok(())
}
