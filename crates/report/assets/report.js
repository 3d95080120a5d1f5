"use strict";
addEventListener("error", (e) => {
  document.documentElement.dataset.error = e.message;
});
const data = JSON.parse(document.getElementById("data").textContent);
// A colour of the style sheet as a canvas understands it, in the theme that holds now.
const probe = document.createElement("i");
probe.hidden = true;
document.body.append(probe);
const colour = (name, share = 100) => {
  probe.style.color = `color-mix(in srgb, var(${name}) ${share}%, transparent)`;
  return getComputedStyle(probe).color;
};
const font = `12px ${getComputedStyle(document.body).fontFamily}`;
const el = (tag, attributes = {}, ...children) => {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
};

// Numbers as people read them: about three digits.
const digits = (v) => {
  if (v == null) return "–";
  const size = Math.abs(v);
  if (size === 0) return "0";
  if (size < 0.0005) return v.toPrecision(2);
  return v.toLocaleString("en-GB", {
    maximumFractionDigits: size >= 99.95 ? 0 : size >= 9.995 ? 1 : size >= 0.0995 ? 2 : 3,
  });
};

// Figures
const dashes = [[], [9, 4], [2, 3], [9, 3, 2, 3], [14, 4], [5, 3], [2, 6], [14, 3, 2, 3, 2, 3]];
const plots = [];
const sample = (index, dash) => {
  const ns = "http://www.w3.org/2000/svg",
    svg = document.createElementNS(ns, "svg"),
    line = document.createElementNS(ns, "path");
  svg.setAttribute("viewBox", "0 0 26 10");
  svg.setAttribute("aria-hidden", "true");
  line.setAttribute("d", "M0 5H26");
  line.setAttribute("fill", "none");
  line.setAttribute("stroke-width", "2.5");
  line.setAttribute("stroke", `var(--s${index % 8})`);
  line.setAttribute("stroke-dasharray", dashes[dash % dashes.length].join(" "));
  svg.append(line);
  return svg;
};

function drawPanel(figure, panel, host, key) {
  const positive = figure.scale === "log" ? (y) => (y > 0 ? y : null) : (y) => y;
  const points = (ys) => ys.map((y) => (y === false ? undefined : y == null ? null : positive(y)));
  const values = [panel.x],
    series = [{}],
    bands = [],
    lines = [];
  for (const s of panel.series) {
    lines.push(values.length);
    const index = s.colour;
    values.push(points(s.y));
    series.push({
      label: s.label,
      show: s.shown,
      width: 2,
      dash: dashes[s.dash % dashes.length],
      stroke: () => colour(`--s${index % 8}`),
      points: {
        show: true,
        size: 5,
        width: 1,
        fill: () => colour(`--s${index % 8}`),
        stroke: () => colour(`--s${index % 8}`),
      },
    });
    if (s.high) {
      const at = values.length;
      values.push(points(s.high), points(s.low));
      const edge = { label: s.label, show: s.shown, stroke: "transparent", points: { show: false } };
      series.push({ ...edge }, { ...edge });
      bands.push({ series: [at, at + 1], fill: () => colour(`--s${index % 8}`, 18) });
    }
  }
  const axis = (extra) => ({
    stroke: () => colour("--muted"),
    font,
    labelFont: font,
    labelSize: 20,
    grid: { stroke: () => colour("--line"), width: 1 },
    ticks: { stroke: () => colour("--line"), width: 1, size: 4 },
    ...extra,
  });
  const logarithmic = figure.scale === "log";
  const plot = new uPlot(
    {
      width: host.clientWidth,
      height: host.clientHeight,
      legend: { show: false },
      cursor: { sync: { key, setSeries: false }, drag: { x: false, y: false }, points: { size: 8 } },
      scales: {
        x: {
          time: false,
          range: (u, low, high) => {
            const pad = (high - low || 1) * 0.02;
            return [low - pad, high + pad];
          },
        },
        y: logarithmic
          ? { distr: 3, range: (u, low, high) => uPlot.rangeLog(figure.low, figure.high, 10, false) }
          : { range: [0, figure.high * 1.06] },
      },
      axes: [
        axis({
          label: figure.xTitle,
          size: 30,
          space: 34,
          values: (u, splits) => splits.map((v) => (v == null ? null : digits(v))),
        }),
        axis({
          label: figure.yTitle,
          size: 46,
          space: 28,
          values: (u, splits) => splits.map((v) => (v == null ? null : digits(v))),
        }),
      ],
      series,
      bands,
      hooks: {
        setCursor: [
          (u) =>
            lines.forEach((at, i) => {
              const here = u.cursor.idx;
              host.outputs[i].value = here == null ? "" : digits(values[at][here]);
            }),
        ],
        draw: [
          () => {
            host.dataset.drawn = "1";
          },
        ],
      },
    },
    values,
    host,
  );
  return { plot, host, lines, panel };
}

function figures() {
  data.figures.forEach((figure, f) => {
    const section = document.querySelector(`[data-figure="${f}"]`);
    const all = figure.panels
      .flatMap((p) => p.series.flatMap((s) => [...s.y, ...(s.high || []), ...(s.low || [])]))
      .filter(Number.isFinite);
    figure.high = Math.max(...all, 0) || 1;
    figure.low = Math.min(...all.filter((y) => y > 0), figure.high);
    const entries = figure.panels.map((panel, p) => {
      const box = section.querySelector(`[data-panel="${p}"]`),
        host = box.querySelector(".plot"),
        legend = box.querySelector(".legend");
      host.outputs = [];
      panel.series.forEach((s, i) => {
        const value = el("output"),
          button = el("button", { type: "button", "aria-pressed": s.shown }, sample(s.colour, s.dash), s.label, value);
        host.outputs.push(value);
        button.addEventListener("click", () => {
          s.shown = !s.shown;
          button.setAttribute("aria-pressed", s.shown);
          const entry = entries[p],
            at = entry.lines[i],
            next = entry.lines[i + 1] ?? entry.plot.series.length;
          for (let n = at; n < next; n++) entry.plot.setSeries(n, { show: s.shown });
        });
        legend.append(button);
      });
      // Arrow keys walk along x.
      host.addEventListener("keydown", (e) => {
        const step = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
        if (!step) return;
        e.preventDefault();
        const { plot } = entries[p],
          at = Math.min(Math.max((plot.cursor.idx ?? (step > 0 ? -1 : panel.x.length)) + step, 0), panel.x.length - 1);
        plot.setCursor({ left: plot.valToPos(panel.x[at], "x"), top: plot.bbox.height / 2 / devicePixelRatio });
      });
      return drawPanel(figure, panel, host, `figure-${f}`);
    });
    section.querySelectorAll("[data-scale]").forEach((button) =>
      button.addEventListener("click", () => {
        figure.scale = button.dataset.scale;
        section.querySelectorAll("[data-scale]").forEach((b) => b.setAttribute("aria-pressed", b === button));
        entries.forEach((entry, p) => {
          entry.plot.destroy();
          plots.splice(plots.indexOf(entry), 1);
          entries[p] = drawPanel(figure, entry.panel, entry.host, `figure-${f}`);
          plots.push(entries[p]);
        });
      }),
    );
    plots.push(...entries);
  });
  const fit = new ResizeObserver((changes) =>
    changes.forEach((change) => {
      const entry = plots.find((e) => e.host === change.target),
        { width, height } = change.contentRect;
      if (entry && width > 0 && (Math.abs(entry.plot.width - width) > 1 || Math.abs(entry.plot.height - height) > 1))
        entry.plot.setSize({ width, height });
    }),
  );
  plots.forEach((entry) => fit.observe(entry.host));
  document.documentElement.dataset.charts = plots.length;
}

// Tables that sort and filter
function table(spec) {
  const box = document.getElementById(spec.id);
  if (!box) return;
  const { columns, rows } = spec,
    said = box.querySelector(".count"),
    body = el("tbody"),
    head = el("tr");
  let order = { column: -1, up: true };
  const shown = (v, column) =>
    v == null
      ? ""
      : typeof v !== "number" || !column.digits
        ? String(v)
        : column.digits === true
          ? digits(v)
          : v.toFixed(column.digits);
  const texts = rows.map((row) =>
    row
      .map((v) => (v == null ? "" : String(v)))
      .join(" ")
      .toLowerCase(),
  );
  const render = () => {
    const words = box.querySelector(".search").value.toLowerCase().split(/\s+/).filter(Boolean);
    let picked = rows.map((_, i) => i).filter((i) => words.every((w) => texts[i].includes(w)));
    if (order.column >= 0) {
      const c = order.column,
        sign = order.up ? 1 : -1;
      picked.sort((a, b) => {
        const x = rows[a][c],
          y = rows[b][c];
        if (x == null || y == null) return (x == null) - (y == null);
        return (
          sign *
          (typeof x === "number" && typeof y === "number"
            ? x - y
            : String(x).localeCompare(String(y), "en", { numeric: true }))
        );
      });
    }
    body.replaceChildren(
      ...picked.map((i) => {
        const tr = el("tr", spec.marked.includes(i) ? { class: "spoiled" } : {});
        rows[i].forEach((v, c) => tr.append(el("td", { class: columns[c].kind }, shown(v, columns[c]))));
        return tr;
      }),
    );
    said.textContent =
      picked.length === rows.length ? `${rows.length} rows` : `${picked.length} of ${rows.length} rows`;
  };
  columns.forEach((column, c) => {
    const button = el("button", { type: "button", class: "sort" }, column.name),
      th = el("th", { scope: "col", class: column.kind }, button);
    button.addEventListener("click", () => {
      order = { column: c, up: order.column === c ? !order.up : true };
      head.querySelectorAll("th").forEach((h) => h.removeAttribute("aria-sort"));
      th.setAttribute("aria-sort", order.up ? "ascending" : "descending");
      render();
    });
    head.append(th);
  });
  box.querySelector("table").append(el("thead", {}, head), body);
  box.querySelector(".search").addEventListener("input", render);
  render();
}

// Theme: the system's, or the other one
const theme = document.getElementById("theme");
const dark = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (document.documentElement.dataset.theme || (dark.matches ? "dark" : "light")) === "dark";
const recolour = () => {
  theme.textContent = isDark() ? "Light" : "Dark";
  plots.forEach(({ plot }) => plot.redraw(false, true));
};
theme.addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  recolour();
});
dark.addEventListener("change", recolour);
// Paper is white.
let chosen;
addEventListener("beforeprint", () => {
  chosen = document.documentElement.dataset.theme;
  document.documentElement.dataset.theme = "light";
  recolour();
});
addEventListener("afterprint", () => {
  if (chosen) document.documentElement.dataset.theme = chosen;
  else delete document.documentElement.dataset.theme;
  recolour();
});

figures();
data.tables.forEach(table);
recolour();
