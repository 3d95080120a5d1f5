//! The E-model's rating R (ITU-T G.107, 06/2015) of a digital connection without echo.
//!
//! R = Ro - Is - Id - Ie,eff (+ A, taken as 0), with the default values of G.107's table 2 for all
//! but the delay and the losses. R is transmission planning: it says how two connections compare. No
//! opinion score is made of it here. The vocoders of narrow lines (MELP, Codec 2) have no equipment
//! impairment that a standard gives; theirs is a stated parameter, so their R is relative.

/// What a codec takes from the rating.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Impairment {
    /// Equipment impairment factor without loss, Ie.
    pub ie: f64,
    /// Packet-loss robustness factor, Bpl: the higher, the less a loss hurts.
    pub bpl: f64,
}

/// What a connection does to speech.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Connection {
    /// Mouth-to-ear delay in ms: coding, packets, the way and the playout buffer.
    pub delay_ms: f64,
    /// Packets lost or too late to be played, as a share of 1.
    pub loss: f64,
    /// Mean length of the bursts of losses over that of random losses of the same share (BurstR).
    pub burst_ratio: f64,
}

// Default values, G.107 table 2.
const SLR: f64 = 8.0;
const RLR: f64 = 2.0;
const STMR: f64 = 15.0;
const DS: f64 = 3.0;
const TELR: f64 = 65.0;
const WEPL: f64 = 110.0;
const QDU: f64 = 1.0;
const NC: f64 = -70.0;
const NFOR: f64 = -64.0;
const PS: f64 = 35.0;
const PR: f64 = 35.0;
const LSTR: f64 = 18.0;

/// The rating of a connection, 0 to 93.2 with these defaults.
#[must_use]
pub fn rating(connection: &Connection, codec: Impairment) -> f64 {
    let delay = connection.delay_ms.max(0.0);
    let (noise, ro) = signal_to_noise();
    let r = ro - simultaneous(noise, ro, delay) - delay_impairment(noise, ro, delay) - equipment(connection, codec);
    r.clamp(0.0, 100.0)
}

/// BurstR of a sequence of packets, `true` for lost: G.107 7.5 by its definition. 1 if none or all
/// are lost.
#[must_use]
pub fn burst_ratio(lost: impl Iterator<Item = bool>) -> f64 {
    let (mut packets, mut losses, mut bursts, mut before) = (0_u64, 0_u64, 0_u64, false);
    for lost in lost {
        packets += 1;
        losses += u64::from(lost);
        bursts += u64::from(lost && !before);
        before = lost;
    }
    if losses == 0 || losses == packets {
        return 1.0;
    }
    let mean = losses as f64 / bursts as f64;
    // Random losses of share p come in bursts of 1 / (1 - p) on average.
    let random = 1.0 / (1.0 - losses as f64 / packets as f64);
    // Losses that keep apart more than chance would are taken as random, as G.107 has no such case.
    (mean / random).max(1.0)
}

/// G.107 7.5: Ie,eff.
fn equipment(connection: &Connection, Impairment { ie, bpl }: Impairment) -> f64 {
    let percent = connection.loss.clamp(0.0, 1.0) * 100.0;
    if percent == 0.0 {
        return ie;
    }
    ie + (95.0 - ie) * percent / (percent / connection.burst_ratio + bpl)
}

/// G.107 7.2: the sum of all noise at the 0 dBr point, and Ro.
fn signal_to_noise() -> (f64, f64) {
    let nos = PS - SLR - DS - 100.0 + 0.004 * square(PS - (SLR + RLR) - DS - 14.0);
    let pre = PR + 10.0 * libm::log10(1.0 + libm::pow(10.0, (10.0 - LSTR) / 10.0));
    let nor = RLR - 121.0 + pre + 0.008 * square(pre - 35.0);
    let nfo = NFOR + RLR;
    let power = [NC, nos, nor, nfo].map(|level| libm::pow(10.0, level / 10.0));
    let noise = 10.0 * libm::log10(power.iter().sum());
    (noise, 15.0 - 1.5 * (SLR + noise))
}

/// G.107 7.3: Is, of loudness, sidetone and quantising.
fn simultaneous(noise: f64, ro: f64, delay: f64) -> f64 {
    let xolr = SLR + RLR + 0.2 * (64.0 + noise - RLR);
    let too_loud = 20.0 * (root(1.0 + libm::pow(xolr / 8.0, 8.0), 8.0) - xolr / 8.0);
    let stmr =
        -10.0 * libm::log10(libm::pow(10.0, -STMR / 10.0) + libm::exp(-delay / 4.0) * libm::pow(10.0, -TELR / 10.0));
    let sidetone = 12.0 * root(1.0 + libm::pow((stmr - 13.0) / 6.0, 8.0), 8.0)
        - 28.0 * root(1.0 + libm::pow((stmr + 1.0) / 19.4, 35.0), 35.0)
        - 13.0 * root(1.0 + libm::pow((stmr - 3.0) / 33.0, 13.0), 13.0)
        + 29.0;
    let q = 37.0 - 15.0 * libm::log10(QDU);
    let g = 1.07 + 0.258 * q + 0.0602 * square(q);
    let y = (ro - 100.0) / 15.0 + 46.0 / 8.4 - g / 9.0;
    let z = 46.0 / 30.0 - g / 40.0;
    too_loud + sidetone + 15.0 * libm::log10(1.0 + libm::pow(10.0, y) + libm::pow(10.0, z))
}

/// G.107 7.4: Id, of the talker's echo, the listener's and the delay itself. The connection is the
/// same both ways, so T is Ta and Tr twice that.
fn delay_impairment(noise: f64, ro: f64, delay: f64) -> f64 {
    let talker = if delay < 1.0 {
        0.0
    } else {
        let terv = TELR - 40.0 * libm::log10((1.0 + delay / 10.0) / (1.0 + delay / 150.0))
            + 6.0 * libm::exp(-0.3 * square(delay));
        let (roe, re) = (-1.5 * (noise - RLR), 80.0 + 2.5 * (terv - 14.0));
        let half = (roe - re) / 2.0;
        (half + libm::sqrt(square(half) + 100.0) - 1.0) * (1.0 - libm::exp(-delay))
    };
    let rle = 10.5 * (WEPL + 7.0) * libm::pow(2.0 * delay + 1.0, -0.25);
    let half = (ro - rle) / 2.0;
    let listener = half + libm::sqrt(square(half) + 169.0);
    // With the default sensitivity: sT = 1, mT = 100 ms.
    let pure = if delay <= 100.0 {
        0.0
    } else {
        let x = libm::log10(delay / 100.0) / libm::log10(2.0);
        25.0 * (root(1.0 + libm::pow(x, 6.0), 6.0) - 3.0 * root(1.0 + libm::pow(x / 3.0, 6.0), 6.0) + 2.0)
    };
    talker + listener + pure
}

fn square(x: f64) -> f64 {
    x * x
}

fn root(x: f64, n: f64) -> f64 {
    libm::pow(x, 1.0 / n)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERFECT: Connection = Connection { delay_ms: 0.0, loss: 0.0, burst_ratio: 1.0 };
    const G711: Impairment = Impairment { ie: 0.0, bpl: 4.3 };

    /// G.107: with all values at their defaults R is 93.2; the points of delay are those of its
    /// figures and of G.108.
    #[test]
    fn the_defaults_give_what_the_standard_says() {
        let of = |delay_ms| rating(&Connection { delay_ms, ..PERFECT }, G711);
        assert!((of(0.0) - 93.2).abs() < 0.05, "{}", of(0.0));
        assert!((of(100.0) - 91.0).abs() < 1.5, "{}", of(100.0));
        assert!((of(400.0) - 60.0).abs() < 8.0, "{}", of(400.0));
        assert!(of(150.0) > of(200.0) && of(200.0) > of(400.0) && of(400.0) > of(1_000.0));
    }

    #[test]
    fn losses_take_what_ie_eff_says_and_bursts_more() {
        let lossy = |loss, burst_ratio| rating(&Connection { loss, burst_ratio, ..PERFECT }, G711);
        // 95 * 5 / (5 + 4.3)
        assert!((rating(&PERFECT, G711) - lossy(0.05, 1.0) - 95.0 * 5.0 / 9.3).abs() < 1e-9);
        assert!(lossy(0.05, 2.0) < lossy(0.05, 1.0));
        assert_eq!(lossy(1.0, 1.0), rating(&Connection { loss: 1.0, ..PERFECT }, G711));
        let worse = rating(&PERFECT, Impairment { ie: 11.0, bpl: 19.0 });
        assert!((rating(&PERFECT, G711) - worse - 11.0).abs() < 1e-9);
    }

    #[test]
    fn bursts_are_measured_against_chance() {
        let of = |text: &str| burst_ratio(text.bytes().map(|byte| byte == b'x'));
        assert_eq!(of("........"), 1.0);
        assert_eq!(of("xxxx"), 1.0);
        // Bursts of 4 where chance gives 1 / (1 - 0.5).
        assert_eq!(of("xxxx...."), 2.0);
        assert_eq!(of("x.x.x.x."), 1.0);
    }
}
