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
const plots = new Map(); // by the element they stand in
const fit = new ResizeObserver((changes) => {
  for (const { target, contentRect } of changes) {
    const plot = plots.get(target);
    const { width, height } = contentRect;
    const changed = Math.abs(plot.width - width) > 1 || Math.abs(plot.height - height) > 1;
    if (width > 0 && changed) plot.setSize({ width, height });
  }
});
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

// What uPlot draws of a panel: its values, lines and bands.
function linesOf(panel, logarithmic) {
  const points = (ys) => ys.map((y) => (y === false ? undefined : logarithmic && !(y > 0) ? null : y));
  const values = [panel.x];
  const series = [{}];
  const bands = [];
  for (const line of panel.series) {
    const ink = () => colour(`--s${line.colour % 8}`);
    values.push(points(line.y));
    series.push({
      show: line.shown,
      width: 2,
      dash: dashes[line.dash % dashes.length],
      stroke: ink,
      points: { show: true, size: 5, width: 1, fill: ink, stroke: ink },
    });
  }
  for (const line of panel.series.filter((line) => line.high)) {
    bands.push({ series: [values.length, values.length + 1], fill: () => colour(`--s${line.colour % 8}`, 18) });
    values.push(points(line.high), points(line.low));
    const edge = { show: line.shown, stroke: "transparent", points: { show: false } };
    series.push({ ...edge }, { ...edge });
  }
  return { values, series, bands };
}

// All panels of a figure share the range of what is shown, so that they compare at a glance.
function rangeOf(figure, logarithmic) {
  const shown = figure.panels.flatMap((panel) => panel.series.filter((line) => line.shown));
  const ys = shown.flatMap((line) => [...line.y, ...(line.high ?? []), ...(line.low ?? [])]).filter(Number.isFinite);
  const high = Math.max(...ys, 0) || 1;
  const low = Math.min(...ys.filter((y) => y > 0), high);
  return logarithmic ? [low * 0.8, high * 1.25] : [0, high * 1.06];
}

function drawPanel(figure, panel, host, outputs, sync) {
  const logarithmic = figure.scale === "log";
  const { values, series, bands } = linesOf(panel, logarithmic);
  const axis = (extra) => ({
    stroke: () => colour("--muted"),
    font,
    labelFont: font,
    labelSize: 20,
    grid: { stroke: () => colour("--line"), width: 1 },
    ticks: { stroke: () => colour("--line"), width: 1, size: 4 },
    values: (_, splits) => splits.map((v) => (v == null ? null : digits(v))),
    ...extra,
  });
  const showValues = (plot) => {
    const here = plot.cursor.idx;
    outputs.forEach((output, i) => (output.value = here == null ? "" : digits(values[i + 1][here])));
  };
  const padded = (_, low, high) => [low - (high - low || 1) * 0.02, high + (high - low || 1) * 0.02];
  const options = {
    width: host.clientWidth,
    height: host.clientHeight,
    legend: { show: false },
    cursor: { sync: { key: sync }, drag: { x: false, y: false }, points: { size: 8 } },
    scales: {
      x: { time: false, range: padded },
      y: { distr: logarithmic ? 3 : 1, range: rangeOf(figure, logarithmic) },
    },
    axes: [axis({ label: figure.xTitle, size: 30, space: 34 }), axis({ label: figure.yTitle, size: 46, space: 28 })],
    series,
    bands,
    hooks: { setCursor: [showValues] },
  };
  return new uPlot(options, values, host);
}

function drawFigure(figure, number) {
  const section = document.querySelector(`[data-figure="${number}"]`);
  const hosts = figure.panels.map((_, p) => section.querySelector(`[data-panel="${p}"] .plot`));
  const outputs = figure.panels.map((panel) => panel.series.map(() => el("output")));
  const draw = () => {
    hosts.forEach((host, p) => {
      plots.get(host)?.destroy();
      plots.set(host, drawPanel(figure, figure.panels[p], host, outputs[p], `figure-${number}`));
    });
  };
  figure.panels.forEach((panel, p) => {
    const legend = section.querySelector(`[data-panel="${p}"] .legend`);
    panel.series.forEach((line, i) => {
      const attributes = { type: "button", "aria-pressed": line.shown };
      const button = el("button", attributes, sample(line.colour, line.dash), line.label, outputs[p][i]);
      button.addEventListener("click", () => {
        line.shown = !line.shown;
        button.setAttribute("aria-pressed", line.shown);
        draw();
      });
      legend.append(button);
    });
    // Arrow keys walk along x, in all panels at once.
    hosts[p].addEventListener("keydown", (e) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
      if (!step) return;
      e.preventDefault();
      const from = plots.get(hosts[p]).cursor.idx ?? (step > 0 ? -1 : panel.x.length);
      const x = panel.x[Math.min(Math.max(from + step, 0), panel.x.length - 1)];
      for (const host of hosts) {
        const plot = plots.get(host);
        plot.setCursor({ left: plot.valToPos(x, "x"), top: 0 });
      }
    });
  });
  const scales = section.querySelectorAll("[data-scale]");
  scales.forEach((button) =>
    button.addEventListener("click", () => {
      figure.scale = button.dataset.scale;
      scales.forEach((other) => other.setAttribute("aria-pressed", other === button));
      draw();
    }),
  );
  draw();
  hosts.forEach((host) => fit.observe(host));
}

// Tables that sort and filter. More rows than these make a page slow, and nobody reads them.
const MOST_ROWS = 2000;
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
      ...picked.slice(0, MOST_ROWS).map((i) => {
        const tr = el("tr", spec.marked.includes(i) ? { class: "spoiled" } : {});
        rows[i].forEach((v, c) => tr.append(el("td", { class: columns[c].kind }, shown(v, columns[c]))));
        return tr;
      }),
    );
    said.textContent =
      (picked.length === rows.length ? `${rows.length} rows` : `${picked.length} of ${rows.length} rows`) +
      (picked.length > MOST_ROWS ? `, the first ${MOST_ROWS} shown` : "");
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
  plots.forEach((plot) => plot.redraw(false, true));
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

data.figures.forEach(drawFigure);
data.tables.forEach(table);
document.documentElement.dataset.charts = plots.size;
recolour();
