//! What one variant costs against another: the ratios with their intervals, on one scale.

use std::fmt::Write;

use measure::analysis::Cost;
use measure::statistics::{Estimate, PairedRatio};

use crate::html::{Text, tiles};

/// The cost as HTML.
pub(crate) fn cost(cost: &Cost) -> String {
    let with = |e: &Estimate| (digits3(e.value), format!("{} to {}", digits3(e.low), digits3(e.high)));
    let (median, median_span) = with(&cost.ratio.median);
    let (mean, mean_span) = with(&cost.ratio.mean);
    let shift = cost.ratio.shift.as_ref().map(with);
    let left_out = match cost.left_out {
        0 => "none left out".to_string(),
        1 => "1 left out: not judged, or nothing at the baseline".to_string(),
        n => format!("{n} left out: not judged, or nothing at the baseline"),
    };
    let mut entries = vec![("Median ratio", median, median_span), ("Mean ratio", mean, mean_span)];
    if let Some((value, span)) = shift {
        entries.push(("Typical ratio", value, span));
    }
    entries.push(("Pairs", cost.ratio.median.n.to_string(), left_out));

    let all = cost.by.iter().flat_map(|b| b.rows.iter().map(|(_, r)| r)).chain([&cost.ratio]);
    let (low, high) =
        all.fold((1.0, 1.0), |(low, high): (f64, f64), r| (low.min(r.median.low), high.max(r.median.high)));
    let pad = ((high - low) * 0.04).max(0.005);
    let scale = Scale { low: low - pad, high: high + pad };
    let mut rows = format!("<tbody class=\"total\">{}</tbody>", row("all pairs", &cost.ratio, &scale));
    for breakdown in &cost.by {
        let each: String = breakdown.rows.iter().map(|(label, ratio)| row(label, ratio, &scale)).collect();
        let _ = write!(
            rows,
            "<tbody><tr><th scope=\"rowgroup\" colspan=\"4\">by {}</th></tr>{each}</tbody>",
            Text(&breakdown.key)
        );
    }
    format!(
        r#"<p>{what} at {key} <strong>{variant}</strong> over {key} <strong>{base}</strong>, for each pair of cells that differ in it alone. 1 means no cost; 0.97 means three hundredths less.</p>
{tiles}
<div class="scroll" style="margin-top:1rem"><table class="forest"><caption>Median ratio with its 95 % interval; the dashed line is 1</caption><thead><tr><th scope="col"></th><th scope="col">{low} to {high}</th><th scope="col" class="num">ratio (interval)</th><th scope="col" class="num wide">pairs</th></tr></thead>{rows}</table></div>
<p class="note" style="margin-top:.7rem">Intervals of median and mean: BCa bootstrap (2,000 draws, seeded). The typical ratio is Hodges and Lehmann's estimate on logarithms with the interval of Wilcoxon's signed-rank test.</p>"#,
        what = Text(&crate::figures::name(cost.metric)),
        key = Text(&cost.key),
        variant = Text(&cost.variant),
        base = Text(&cost.base),
        tiles = tiles(&entries),
        low = digits3(scale.low),
        high = digits3(scale.high),
    )
}

/// The range that all rows share.
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    fn percent(&self, value: f64) -> f64 {
        100.0 * (value - self.low) / (self.high - self.low)
    }
}

fn row(label: &str, ratio: &PairedRatio, scale: &Scale) -> String {
    let Estimate { value, low, high, n } = ratio.median;
    format!(
        r#"<tr><th scope="row">{}</th><td class="plotcell"><svg aria-hidden="true"><line class="one" x1="{one:.2}%" x2="{one:.2}%" y1="0" y2="100%"/><line class="span" x1="{from:.2}%" x2="{to:.2}%" y1="50%" y2="50%"/><circle class="dot" cx="{at:.2}%" cy="50%" r="4.5"/></svg></td><td class="num"><span>{}</span> <span>({} to {})</span></td><td class="num wide">{n}</td></tr>"#,
        Text(label),
        digits3(value),
        digits3(low),
        digits3(high),
        one = scale.percent(1.0),
        from = scale.percent(low),
        to = scale.percent(high),
        at = scale.percent(value),
    )
}

fn digits3(value: f64) -> String {
    format!("{value:.3}")
}
