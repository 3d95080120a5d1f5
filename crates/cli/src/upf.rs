//! `narrows upf`

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the command line speaks here")]

use netio::packet_io::Choice;
use scenario::{LiveUpf, UpfAccount, UpfNews, UpfSettings, UpfSide};

use crate::args::{self, PacketWay};
use crate::{exit, run};

/// `narrows upf`
pub(crate) fn upf(options: &args::Upf) -> u8 {
    let settings = settings(options);
    netio::sandbox::heed_interrupts();
    let live = match LiveUpf::open(&settings, None) {
        Ok(live) => live,
        Err(error) => {
            eprintln!("narrows: {error}");
            return exit::FAILED;
        }
    };
    let choices: Vec<String> = live.choices().collect();
    for choice in &choices {
        eprintln!("narrows: {choice}");
    }
    eprintln!("narrows: ready on N4 at {}", live.n4());
    if options.json {
        println!("{}", serde_json::json!({"event": "ready", "n4": live.n4().to_string(), "io": choices}));
    }
    let mut before: Option<UpfAccount> = None;
    let every = options.stats.map(Into::into);
    let account = live.run(netio::sandbox::interrupted, every, |news| {
        eprintln!("narrows: {}", news.line(before.as_ref()));
        if options.json {
            println!("{}", news.json());
        }
        if let UpfNews::Account(account) = news {
            before = Some(account.clone());
        }
    });
    for line in account.lines() {
        eprintln!("narrows: {line}");
    }
    eprintln!("narrows: seed {}", settings.seed);
    if options.json {
        println!("{}", account.json());
    }
    exit::DONE
}

fn settings(options: &args::Upf) -> UpfSettings {
    let side = |interface: &str, addresses: &[args::Network], gateways: &[std::net::IpAddr]| UpfSide {
        interface: interface.into(),
        addresses: addresses.iter().map(|network| (network.address, network.prefix)).collect(),
        gateways: gateways.to_vec(),
    };
    UpfSettings {
        n3: side(&options.n3, &options.n3_address, &options.n3_gateway),
        n4: options.n4.0,
        n6: side(&options.n6, &options.n6_address, &options.n6_gateway),
        node: options.node.as_ref().map(|node| node.0.clone()),
        predefined: options.predefined.clone(),
        burst: options.burst,
        heartbeat: options.heartbeat,
        choice: match options.io {
            PacketWay::Auto => Choice::Auto,
            PacketWay::AfXdp => Choice::AfXdp,
            PacketWay::AfPacket => Choice::AfPacket,
        },
        seed: options.seed.unwrap_or_else(run::draw_seed),
    }
}
