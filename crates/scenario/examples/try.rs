fn main() {
    let mut args: Vec<String> = std::env::args().collect();
    let virt = args.iter().position(|a| a == "--virtual").map(|i| args.remove(i)).is_some();
    let quick = args.iter().position(|a| a == "--quick").map(|i| args.remove(i)).is_some();
    let plan = scenario::load(args[1].as_ref(), &scenario::Options { quick, set: args[3..].to_vec(), seed: 1 })
        .unwrap_or_else(|e| {
            eprintln!("{e}");
            std::process::exit(2)
        });
    let how = scenario::RunOptions {
        out: args[2].clone().into(),
        resume: false,
        executor: if virt { scenario::Executor::Virtual } else { scenario::Executor::Real },
        jobs: scenario::Jobs::Auto,
    };
    let work = || {
        let t = std::time::Instant::now();
        let outcome = scenario::run(&plan, &how, &mut |p| {
            if let scenario::Progress::Cell { record, again } = &p {
                let f = &record.flows[0];
                println!(
                    "{:?} {} {:?} goodput {:.0} err {:?} late p50 {:.1}us p99 {:.1}us max {:.1} n {} late {} stalls {} {:?} busy {:.2} steal {:.2} again {again} {:?}",
                    record.coordinates.iter().map(|c| c.1.label.as_str()).collect::<Vec<_>>(),
                    f.flow,
                    f.connect,
                    f.goodput_bit_s(),
                    f.error,
                    record.health.lateness.p50 * 1e6,
                    record.health.lateness.p99 * 1e6,
                    record.health.lateness.max * 1e6,
                    record.health.packets,
                    record.health.late_packets,
                    record.health.stalls,
                    record.health.stalled,
                    record.health.machine_busy,
                    record.health.machine_steal,
                    record.health.spoiled
                );
            }
        });
        println!("{outcome:?} {:?}", t.elapsed());
        let rec = measure::Recording::load(&how.out).unwrap();
        println!("{}", measure::summary::text(&rec, &measure::Analysis::of(&rec), 120));
        i32::from(outcome.is_err())
    };
    std::process::exit(if virt { work() } else { netio::sandbox::run(work).unwrap().code() });
}
