//! `narrows load`

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the command line speaks here")]

use std::fs;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use measure::format::{count, duration};
use netio::packet_io::Choice;
use report::LoadFigure;
use scenario::load::{LoadPlan, Upf};
use scenario::{Best, LoadError, LoadNews, LoadOptions, LoadOutcome, Sample, Search, Volume};
use traffic::replay::Direction;

use crate::args::{Io, Load, Ways};
use crate::{exit, run, show};

/// `narrows load`
pub(crate) fn load(options: &Load) -> u8 {
    let seed = options.seed.unwrap_or_else(run::draw_seed);
    let plan = match scenario::load_file(&options.file, seed) {
        Ok(plan) => plan,
        Err(error) => return show::bad_input(&error),
    };
    if plan.upf != Upf::Own {
        netio::sandbox::heed_interrupts();
        return work(&plan, options);
    }
    match netio::sandbox::run(|| i32::from(work(&plan, options))) {
        Ok(exit) => u8::try_from(exit.code()).unwrap_or(exit::FAILED),
        Err(error) => {
            eprintln!("narrows: {error}");
            exit::FAILED
        }
    }
}

fn work(plan: &LoadPlan, options: &Load) -> u8 {
    let choice = match options.io {
        Io::Auto => Choice::Auto,
        Io::AfXdp => Choice::AfXdp,
        Io::AfPacket => Choice::AfPacket,
    };
    let mut shown = Shown::new(plan, options.json);
    if let Some(loss) = options.find_max {
        return search(plan, options, choice, loss, &mut shown);
    }
    let out = options.out.clone().unwrap_or_else(|| run::default_out(&plan.name));
    let outcome = scenario::run_load(plan, &LoadOptions { out: out.clone(), choice }, &mut |news| shown.take(&news));
    shown.end();
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => return failed(&error),
    };
    let page = out.join("report.html");
    if let Err(error) = fs::write(&page, drawn(plan, &outcome)) {
        eprintln!("narrows: cannot write {}: {error}", page.display());
        return exit::FAILED;
    }
    if options.json {
        println!("{}", outcome.summary.json());
    } else {
        for line in outcome.summary.lines() {
            println!("{line}");
        }
        println!("seed {}", outcome.summary.seed);
        println!("report: {}", page.display());
    }
    if outcome.interrupted {
        eprintln!("narrows: interrupted; the sessions were deleted, what was measured is in {}", out.display());
        return exit::FAILED;
    }
    exit::DONE
}

/// The report: throughput and latency over time, as the thesis has them.
fn drawn(plan: &LoadPlan, outcome: &LoadOutcome) -> String {
    let interval = 1.0 / f64::from(plan.samples_per_second);
    let values = |value: &dyn Fn(&Sample) -> Option<f64>| -> Vec<Option<f64>> {
        outcome.samples.iter().map(|(sample, _)| value(sample)).collect()
    };
    let [up, down] = [0, 1];
    let names = ["uplink sent", "uplink received", "downlink sent", "downlink received"];
    let volumes = |figure: fn(&Volume) -> f64| {
        let of = |sample: &Sample, line: usize| match line {
            0 => figure(&sample.out[up]),
            1 => figure(&sample.back[up]),
            2 => figure(&sample.out[down]),
            _ => figure(&sample.back[down]),
        };
        let line = |(line, name): (usize, &'static str)| (name, values(&|sample| Some(of(sample, line))));
        names.into_iter().enumerate().map(line).collect()
    };
    let latency = |way: usize| values(&|sample| sample.latency_s(way).map(|seconds| seconds * 1e3));
    let largest =
        |way: usize| values(&|sample| (sample.timed[way] > 0).then(|| sample.latency_max[way].as_secs_f64() * 1e3));
    let lateness = outcome.samples.iter().map(|(_, late)| Some(late.as_secs_f64() * 1e3)).collect();
    let figures = [
        LoadFigure { title: "Packets in a sample", y: "packets", lines: volumes(|volume| volume.packets as f64) },
        LoadFigure { title: "Bytes in a sample", y: "kB", lines: volumes(|volume| volume.bytes as f64 / 1e3) },
        LoadFigure {
            title: "Mean latency of a sample",
            y: "ms",
            lines: vec![("uplink", latency(up)), ("downlink", latency(down))],
        },
        LoadFigure {
            title: "Largest latency of a sample, and the sender's own lateness",
            y: "ms",
            lines: vec![("uplink", largest(up)), ("downlink", largest(down)), ("own lateness", lateness)],
        },
    ];
    report::load_page(&plan.name, &outcome.summary.lines(), interval, &figures)
}

fn search(plan: &LoadPlan, options: &Load, choice: Choice, loss: f64, shown: &mut Shown) -> u8 {
    let directions = options.directions.iter().map(|ways| match ways {
        Ways::Up => vec![Direction::Uplink],
        Ways::Down => vec![Direction::Downlink],
        Ways::Both => vec![Direction::Uplink, Direction::Downlink],
    });
    let search = Search {
        loss,
        flows: options.flows.clone(),
        directions: directions.collect(),
        trial: options.trial,
        repeats: options.repeats,
        from: options.from,
    };
    let found = scenario::find_max(plan, &search, choice, &mut |news| shown.take(&news));
    shown.end();
    let found = match found {
        Ok(found) => found,
        Err(error) => return failed(&error),
    };
    for best in &found {
        if options.json {
            println!("{}", serde_json::json!({"event": "find-max", "best": best}));
        } else {
            println!("{}", words(best, loss));
        }
    }
    if netio::sandbox::interrupted() { exit::FAILED } else { exit::DONE }
}

fn words(best: &Best, loss: f64) -> String {
    let flows = if best.flows == 1 { "1 flow".into() } else { format!("{} flows", count(best.flows.into())) };
    let Some(trial) = &best.best else {
        return format!("{}, {flows}: no rate passed with at most {} % lost", best.direction, loss * 100.0);
    };
    let limit = if best.limited_by_sender { "; this machine cannot send faster" } else { "" };
    format!(
        "{}, {flows}: {} packets/s each way with {:.3} % lost, {:.4} Gbit/s in, delay {}{limit}",
        best.direction,
        count(trial.rate),
        trial.loss * 100.0,
        trial.received_bit_s / 1e9,
        trial.delay_s.map_or("-".into(), duration)
    )
}

fn failed(error: &LoadError) -> u8 {
    eprintln!("narrows: {error}");
    if error.is_bad_input() { exit::BAD_INPUT } else { exit::FAILED }
}

/// What is shown while a load runs.
struct Shown {
    bar: ProgressBar,
    json: bool,
    length: Duration,
}

impl Shown {
    fn new(plan: &LoadPlan, json: bool) -> Self {
        let length = Duration::from_nanos(plan.duration.as_nanos());
        Self { bar: ProgressBar::hidden(), json, length }
    }

    fn take(&mut self, news: &LoadNews<'_>) {
        if self.json
            && let Some(json) = news.json()
        {
            println!("{json}");
        }
        match news {
            LoadNews::Note(what) => self.say(what),
            LoadNews::Sessions(account) => {
                let took = duration(account.took_ns as f64 / 1e9);
                self.say(&format!("{} sessions established in {took}", count(account.established)));
                self.bar = ProgressBar::new(self.length.as_millis() as u64);
                let style = ProgressStyle::with_template("{bar:30} {elapsed}/{msg}");
                self.bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            }
            LoadNews::Live { elapsed, total } => {
                let [up, down] = [0, 1].map(|way: usize| {
                    let (out, back) = (total.out[way].packets, total.back[way].packets);
                    format!("{} of {} back", count(back), count(out))
                });
                self.bar.set_position(elapsed.as_nanos() / 1_000_000);
                self.bar.set_message(format!("{}, uplink {up}, downlink {down}", duration(self.length.as_secs_f64())));
            }
            LoadNews::Trial(trial) => {
                let verdict = match (trial.passed, trial.kept) {
                    (true, _) => "passed",
                    (false, true) => "failed",
                    (false, false) => "not kept by this machine",
                };
                let (rate, loss) = (count(trial.rate), trial.loss * 100.0);
                self.say(&format!("{}, {} flows, {rate}/s: {loss:.3} % lost, {verdict}", trial.direction, trial.flows));
            }
        }
    }

    fn end(&self) {
        self.bar.finish_and_clear();
    }

    fn say(&self, line: &str) {
        self.bar.suspend(|| eprintln!("{line}"));
    }
}
