// Line charts over uPlot, the same on the live page and in the report: one colour a target, a readout instead of a
// legend in each chart, the cursor at the same place in all charts of a kind.
"use strict";

const LadderCharts = (() => {
  const COLORS = 6;
  const HEIGHT = 220;
  // Lines through fewer values than that also show the values.
  const FEW = 60;
  const WHOLE = [1, 2, 5].flatMap((step) => [1, 10, 100, 1e3, 1e4, 1e5].map((power) => step * power)).sort((a, b) => a - b);
  const drawn = [];

  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const colorOf = (number) => `var(--series-${number % COLORS})`;
  const strokeOf = (number) => () => css(`--series-${number % COLORS}`);
  // Targets past the sixth share a colour with an earlier one and are told from it by their dashes.
  const dashOf = (number) => (number < COLORS ? undefined : [10, 4]);

  const element = (name, className, text) => {
    const made = document.createElement(name);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  };

  const isEmpty = (plot) => plot.data.slice(1).every((line) => line.every((value) => value == null));

  const trimmed = (value, digits) => String(Number(value.toPrecision(digits)));
  const format = {
    ms: (value) => {
      if (value == null) return "–";
      return value >= 1000 ? `${trimmed(value / 1000, 3)} s` : `${trimmed(value, 3)} ms`;
    },
    count: (value) => (value == null ? "–" : value >= 10000 ? `${trimmed(value / 1000, 3)}k` : trimmed(value, 3)),
    whole: (value) => (value == null ? "–" : value >= 10000 ? `${trimmed(value / 1000, 3)}k` : String(value)),
    percent: (value) => (value == null ? "–" : `${trimmed(value * 100, 3)} %`),
    nines: (value) => (value <= 0 ? "0" : `p${trimmed((1 - 10 ** -value) * 100, 2 + Math.ceil(value))}`),
    clock: (value, most = value) => {
      if (most < 120) return `${Math.round(value)} s`;
      const minutes = Math.floor(value / 60);
      return `${minutes}:${String(Math.round(value - 60 * minutes)).padStart(2, "0")}`;
    },
  };

  function swatch(number) {
    const mark = element("span", "swatch");
    mark.style.borderTopColor = colorOf(number);
    if (dashOf(number)) mark.style.borderTopStyle = "dashed";
    return mark;
  }

  // The warm-up, which the figures leave out, has another ground.
  function warmupGround(seconds) {
    return (plot) => {
      const { min, max } = plot.scales.x;
      if (!seconds || min == null || min >= seconds) return;
      const { left, top, height } = plot.bbox;
      const width = plot.valToPos(Math.min(seconds, max), "x", true) - left;
      const ink = plot.ctx;
      ink.save();
      ink.fillStyle = css("--grid");
      ink.fillRect(left, top, width, height);
      ink.restore();
    };
  }

  // A dashed line at the limit, when the axis reaches so far.
  function limitLine(axis, limit) {
    return (plot) => {
      const scale = plot.scales[axis];
      if (limit == null || scale.min == null || limit < scale.min || limit > scale.max) return;
      const at = Math.round(plot.valToPos(limit, axis, true)) + 0.5;
      const { left, top, width, height } = plot.bbox;
      const pixels = devicePixelRatio;
      const ink = plot.ctx;
      ink.save();
      ink.strokeStyle = ink.fillStyle = css("--text");
      ink.lineWidth = pixels;
      ink.setLineDash([2 * pixels, 3 * pixels]);
      ink.beginPath();
      if (axis === "y") { ink.moveTo(left, at); ink.lineTo(left + width, at); }
      else { ink.moveTo(at, top); ink.lineTo(at, top + height); }
      ink.stroke();
      ink.font = `${11 * pixels}px system-ui, sans-serif`;
      ink.textBaseline = "bottom";
      const label = `SLA ${format.ms(limit)}`;
      const room = left + width - at > 80 * pixels;
      ink.textAlign = axis === "x" && room ? "left" : "right";
      const place = axis === "y"
        ? [left + width - 4 * pixels, at - 2 * pixels]
        : [at + (room ? 4 : -4) * pixels, top + height - 4 * pixels];
      // A rim in the colour of the ground keeps the words readable where a line runs through them.
      ink.setLineDash([]);
      ink.strokeStyle = css("--ground");
      ink.lineWidth = 4 * pixels;
      ink.strokeText(label, ...place);
      ink.fillText(label, ...place);
      ink.restore();
    };
  }

  // `lines`: {name, color, width, dash}; `x`, `y`: {format, whole, log, splits, space, range}. Returns the plot, still empty.
  function draw(place, { title, note, sync, lines, x, y, limit, limitAxis = "y", warmup }) {
    const head = element("div", "head");
    const readout = element("span", "readout");
    const plotPlace = element("div", "plot");
    head.append(element("h3", "", title));
    if (note) head.append(element("span", "note", note));
    head.append(readout);
    place.replaceChildren(head, plotPlace);

    const axis = (scale, size) => ({
      stroke: () => css("--quiet"),
      grid: { stroke: () => css("--grid"), width: 1 },
      ticks: { show: false },
      font: "12px system-ui, sans-serif",
      gap: 6,
      size,
      values: (plot, splits) =>
        splits.map((split) => (split == null || isEmpty(plot) ? "" : scale.format(split, splits.at(-1)))),
      ...(scale.whole ? { incrs: WHOLE } : {}),
      ...(scale.splits ? { splits: scale.splits } : {}),
      ...(scale.space ? { space: scale.space } : {}),
    });
    const say = (plot) => {
      const at = plot.cursor.idx;
      readout.replaceChildren();
      if (at == null) return;
      readout.append(x.format(plot.data[0][at], plot.scales.x.max));
      lines.forEach((line, number) => {
        const figure = element("b", "", ` ${y.format(plot.data[number + 1][at])}`);
        figure.style.color = colorOf(line.color);
        readout.append("\u2002", figure);
      });
    };
    const plot = new uPlot(
      {
        width: plotPlace.clientWidth || 480,
        height: HEIGHT,
        legend: { show: false },
        cursor: { sync: { key: sync, scales: ["x", null] }, drag: { x: false, y: false }, points: { size: 7 } },
        scales: {
          x: { time: false, distr: x.log ? 3 : 1, ...(x.range ? { range: x.range } : {}) },
          y: { distr: y.log ? 3 : 1, range: y.range ?? fromZero },
        },
        axes: [axis(x, 28), axis(y, 58)],
        series: [
          {},
          ...lines.map((line) => ({
            label: line.name,
            stroke: strokeOf(line.color),
            width: line.width ?? 2,
            dash: line.dash ?? dashOf(line.color),
            spanGaps: true,
            points: {
              show: (plot, number) => plot.data[number].filter((value) => value != null).length <= FEW,
              size: 5,
              fill: strokeOf(line.color),
            },
          })),
        ],
        hooks: { setCursor: [say], setData: [say], drawClear: [warmupGround(warmup)], draw: [limitLine(limitAxis, limit)] },
      },
      [[], ...lines.map(() => [])],
      plotPlace,
    );
    new ResizeObserver(() => {
      const width = plotPlace.clientWidth;
      if (width && width !== plot.width) plot.setSize({ width, height: HEIGHT });
    }).observe(plotPlace);
    drawn.push(plot);
    return plot;
  }

  const fromZero = (plot, least, most) => (most == null || most <= 0 ? [0, 1] : [0, most * 1.08]);

  // Per second, counts jump between nothing and a whole answer; their mean over a few seconds shows the rate.
  const WINDOW = 10;
  function trailingMean(values) {
    let sum = 0;
    return values.map((value, at) => {
      sum += value ?? 0;
      if (at >= WINDOW) sum -= values[at - WINDOW] ?? 0;
      // The mean of the very first seconds jumps too.
      return at + 1 < Math.min(WINDOW / 2, values.length) ? null : sum / Math.min(at + 1, WINDOW);
    });
  }

  function runningTotal(values) {
    let sum = 0;
    return values.map((value) => (sum += value ?? 0));
  }

  const MEAN = `of requests that ended, mean over ${WINDOW} s`;
  const PERCENTILES = "p50 solid, p95 dashed";
  const OVER_TIME = [
    { title: "Time to first token", latency: "ttft", note: PERCENTILES, unit: "ms" },
    { title: "Inter-token latency", latency: "itl", note: PERCENTILES, unit: "ms" },
    { title: "Output tokens per second", column: "output_tokens", shape: trailingMean, note: MEAN, unit: "count" },
    { title: "Requests per second", column: "requests", shape: trailingMean, note: MEAN, unit: "count" },
    { title: "Failures so far", column: "failures", shape: runningTotal, unit: "whole" },
    { title: "Requests in flight", column: "in_flight", unit: "whole" },
  ];

  // The charts over time. Returns a function that shows a timeline: per target, columns of one length.
  function overTime(place, targets, marks) {
    const charts = OVER_TIME.map(({ title, latency, column, shape, note, unit }) => {
      const drawnOf = latency
        ? [{ column: `${latency}_p50_ms` }, { column: `${latency}_p95_ms`, width: 1.25, dash: [4, 4] }]
        : [{ column }];
      const lines = targets.flatMap((target) => drawnOf.map((line) => ({ ...line, ...target })));
      const plot = draw(place.appendChild(element("div", "chart")), {
        title,
        note,
        sync: "over time",
        lines,
        x: { format: format.clock },
        y: { format: format[unit], whole: unit === "whole" },
        limit: latency && marks.limits_ms[latency],
        warmup: marks.warmup_s,
      });
      return { plot, lines, shape: shape ?? ((values) => values) };
    });
    return (timeline) => {
      for (const { plot, lines, shape } of charts) {
        const tables = lines.map(({ name, column }) => {
          const columns = timeline[name] ?? { second: [], [column]: [] };
          return [columns.second, shape(columns[column])];
        });
        plot.setData(uPlot.join(tables));
      }
    };
  }

  // A percentile curve (by the number of nines) and a cumulative curve of one latency.
  function distribution(place, { title, key, targets, curves, limit }) {
    const lines = targets.filter(({ name }) => curves[name]?.ms.length);
    if (!lines.length) return false;
    const nines = lines.map(({ name }) => [curves[name].share.map((share) => -Math.log10(1 - share)), curves[name].ms]);
    const most = Math.max(...nines.flatMap(([places]) => places[places.length - 1]));
    const percentiles = draw(place.appendChild(element("div", "chart")), {
      title: `${title} by percentile`,
      sync: `percentile of ${key}`,
      lines,
      x: {
        format: format.nines,
        splits: () => [0, Math.log10(2), 1, 2, 3, 4, 5].filter((split) => split <= most),
        space: () => 20,
        range: () => [0, Math.max(most, 1)],
      },
      y: { format: format.ms },
      limit,
    });
    percentiles.setData(uPlot.join(nines));
    const smallest = Math.min(...lines.map(({ name }) => curves[name].ms[0]));
    const largest = Math.max(...lines.map(({ name }) => curves[name].ms.at(-1)));
    const log = smallest > 0 && largest / smallest > 30;
    const cumulative = draw(place.appendChild(element("div", "chart")), {
      title: `${title}, cumulative`,
      note: log ? "logarithmic axis" : "",
      sync: `share of ${key}`,
      lines,
      x: log ? { format: format.ms, log } : { format: format.ms, range: () => [0, largest * 1.02] },
      y: { format: format.percent, range: () => [0, 1] },
      limit,
      limitAxis: "x",
    });
    cumulative.setData(uPlot.join(lines.map(({ name }) => [curves[name].ms, curves[name].share])));
    return true;
  }

  function legend(place, targets, marks) {
    place.replaceChildren(
      ...targets.map(({ name, color }) => {
        const entry = element("span");
        entry.append(swatch(color), name);
        return entry;
      }),
    );
    if (marks?.warmup_s) {
      const entry = element("span", "quiet");
      entry.append(element("span", "ground"), "warm-up, not counted");
      place.append(entry);
    }
  }

  function redraw() {
    for (const plot of drawn) plot.redraw(false, true);
  }

  // `chosen` is "dark", "light" or nothing, which follows the system.
  function theme(chosen) {
    const system = matchMedia("(prefers-color-scheme: dark)");
    const apply = () => {
      document.documentElement.dataset.theme = chosen || (system.matches ? "dark" : "light");
      redraw();
    };
    system.addEventListener("change", apply);
    apply();
  }

  return { overTime, distribution, legend, swatch, theme, element };
})();
