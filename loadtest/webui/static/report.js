// The charts of the report, out of the data that stands in the page.
"use strict";

(() => {
  const { distribution, legend, overTime, theme } = LadderCharts;
  const data = JSON.parse(document.getElementById("data").textContent);
  theme();
  legend(document.getElementById("targets"), data.targets);
  legend(document.getElementById("targets-over-time"), data.targets, data.marks);

  const LATENCIES = [
    ["ttft", "Time to first token"],
    ["tpot", "Time per output token"],
    ["itl", "Inter-token latency"],
    ["e2e", "End to end"],
  ];
  const distributions = document.getElementById("distributions");
  for (const [key, title] of LATENCIES) {
    distribution(distributions, {
      title, key, targets: data.targets, curves: data.distributions[key], limit: data.marks.limits_ms[key],
    });
  }
  document.getElementById("no-distributions").hidden = distributions.childElementCount > 0;

  const measured = Object.values(data.timeline).some(({ second }) => second.length);
  document.getElementById("no-timeline").hidden = measured;
  if (measured) overTime(document.getElementById("timeline"), data.targets, data.marks)(data.timeline);
})();
