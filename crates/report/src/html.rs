//! The pieces every page is made of: escaping, the shell with its styles and scripts, verdicts.

use std::fmt;

use measure::Verdict;
use serde_json::{Value, json};

const UPLOT_JS: &str = include_str!("../assets/uplot/uPlot.iife.min.js");
const UPLOT_CSS: &str = include_str!("../assets/uplot/uPlot.min.css");
const UPLOT_LICENSE: &str = include_str!("../assets/uplot/LICENSE");
const REPORT_JS: &str = include_str!("../assets/report.js");
const REPORT_CSS: &str = include_str!("../assets/report.css");

/// Text that came from outside, as HTML text or inside a quoted attribute.
pub(crate) struct Text<'a>(pub(crate) &'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                c => write!(f, "{c}")?,
            }
        }
        Ok(())
    }
}

/// A page: its sections, and the data its charts and tables are drawn from.
pub(crate) struct Page {
    /// Title of the window.
    pub(crate) title: String,
    /// Everything in `main`, as HTML.
    pub(crate) body: String,
    /// Anchor and name of each section for the bar at the top.
    pub(crate) sections: Vec<(&'static str, &'static str)>,
    /// See `report.js`.
    pub(crate) figures: Vec<Value>,
    /// See `report.js`.
    pub(crate) tables: Vec<Value>,
    /// Version of Narrows that drew it.
    pub(crate) version: &'static str,
}

impl Page {
    /// The page as one file that needs no other, and no network: its policy forbids both.
    pub(crate) fn html(&self) -> String {
        let title = Text(&self.title);
        let links: String = self.sections.iter().map(|(id, name)| format!("<a href=\"#{id}\">{name}</a>")).collect();
        let data = script_safe(&json!({"figures": self.figures, "tables": self.tables}).to_string());
        let (body, version) = (&self.body, self.version);
        format!(
            r##"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>{UPLOT_CSS}</style>
<style>{REPORT_CSS}</style>
</head>
<body>
<div class="bar"><div><strong>Narrows</strong><nav aria-label="Sections">{links}</nav><button id="theme" type="button" title="Switch between light and dark">Dark</button></div></div>
<main>
{body}
</main>
<footer>Made by narrows {version}. This file needs no network. Charts: uPlot (MIT).</footer>
<noscript><p class="note">Charts and the table of cells are drawn by scripts, which are off; every figure has its values as a table.</p></noscript>
<script type="application/json" id="data">{data}</script>
<script>
/* {UPLOT_LICENSE} */
{UPLOT_JS}
</script>
<script>{REPORT_JS}</script>
</body>
</html>
"##
        )
    }
}

/// JSON that cannot end the script element it stands in.
fn script_safe(json: &str) -> String {
    json.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

/// The class of a verdict.
pub(crate) fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "holds",
        Verdict::Fails => "fails",
        Verdict::NotJudged => "not-judged",
    }
}

/// A verdict as a word with its sign: never by colour alone.
pub(crate) fn tag(verdict: Verdict, word: &str) -> String {
    format!("<span class=\"tag {}\">{}{}</span>", class(verdict), icon(verdict), Text(word))
}

/// The sign of a verdict.
pub(crate) fn icon(verdict: Verdict) -> String {
    let path = match verdict {
        Verdict::Holds => "M3.5 8.5l3 3 6-7",
        Verdict::Fails => "M4 4l8 8M12 4l-8 8",
        Verdict::NotJudged => "M6 6a2 2 0 1 1 2.8 1.9c-.6.3-.8.7-.8 1.4M8 11.8v.2",
    };
    format!(
        "<svg viewBox=\"0 0 16 16\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"1.8\" stroke-linecap=\"round\" stroke-linejoin=\"round\" aria-hidden=\"true\"><path d=\"{path}\"/></svg>"
    )
}

/// A list in a `details` element; nothing for an empty one.
pub(crate) fn details(summary: &str, items: impl IntoIterator<Item = String>) -> String {
    let items: String = items.into_iter().map(|item| format!("<li>{}</li>", Text(&item))).collect();
    if items.is_empty() {
        return items;
    }
    format!("<details><summary>{}</summary><ul>{items}</ul></details>", Text(summary))
}

/// Names and values side by side; values are HTML.
pub(crate) fn facts(entries: &[(&str, String)]) -> String {
    let rows: String = entries
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format!("<div><dt>{name}</dt><dd>{value}</dd></div>"))
        .collect();
    format!("<dl class=\"facts\">{rows}</dl>")
}

/// Figures that stand out: name, value, and a line beneath.
pub(crate) fn tiles(entries: &[(&str, String, String)]) -> String {
    let tiles: String = entries
        .iter()
        .map(|(name, value, beneath)| {
            let beneath = if beneath.is_empty() { String::new() } else { format!("<small>{}</small>", Text(beneath)) };
            format!("<div><dt>{}</dt><dd>{}{beneath}</dd></div>", Text(name), Text(value))
        })
        .collect();
    format!("<dl class=\"tiles\">{tiles}</dl>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_become_markup() {
        let nasty = "<b a=\"1\" b='2'>&</script>";
        assert_eq!(Text(nasty).to_string(), "&lt;b a=&quot;1&quot; b=&#39;2&#39;&gt;&amp;&lt;/script&gt;");
        assert_eq!(script_safe("{\"a\":\"</script><!--\"}"), "{\"a\":\"\\u003c/script>\\u003c!--\"}");
    }

    #[test]
    fn assets_cannot_end_their_element() {
        for asset in [UPLOT_JS, REPORT_JS, UPLOT_CSS, REPORT_CSS] {
            assert!(!asset.contains("</script") && !asset.contains("</style") && !asset.contains("<!--"));
        }
        assert!(!UPLOT_LICENSE.contains("*/"));
    }
}
