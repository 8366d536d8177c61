// The live page: asks every second for what is new, and shows it.
"use strict";

(() => {
  const { clear, element, legend, overTime, swatch, theme } = LadderCharts;
  const EVERY_MS = 1000;
  // Workers report every few seconds, so the last seconds may still change.
  const ASKED_AGAIN = 15;
  const byId = (id) => document.getElementById(id);

  let run = null;
  let names = "";
  let show = null;
  let columns = {};

  function startOver(answer) {
    run = answer.run;
    columns = {};
    draw(answer);
  }

  // Which models a router hands requests on to is seen as they answer.
  function draw(answer) {
    names = namesOf(answer);
    clear();
    byId("charts").replaceChildren();
    legend(byId("targets"), answer.targets, answer.marks);
    show = overTime(byId("charts"), answer.targets, answer.marks);
  }

  function namesOf(answer) {
    return JSON.stringify(answer.targets);
  }

  // Seconds that came again replace what was known of them.
  function merge(timeline) {
    for (const [target, fresh] of Object.entries(timeline)) {
      const known = columns[target];
      if (!known || !fresh.second.length) {
        columns[target] = known ?? fresh;
        continue;
      }
      const kept = known.second.findIndex((second) => second >= fresh.second[0]);
      for (const name of Object.keys(fresh)) {
        columns[target][name] = (kept < 0 ? known[name] : known[name].slice(0, kept)).concat(fresh[name]);
      }
    }
  }

  function lastSecond() {
    return Math.max(0, ...Object.values(columns).map(({ second }) => second.at(-1) ?? 0));
  }

  function notices(list) {
    byId("notices").replaceChildren(
      ...list.map(({ level, text, reasons }) => {
        const box = element("div", `notice ${level}`, text);
        if (reasons.length) {
          const items = element("ul");
          items.append(...reasons.map((reason) => element("li", "", reason)));
          box.append(items);
        }
        return box;
      }),
    );
  }

  function table(rows) {
    byId("figures").hidden = !rows.length;
    byId("rows").replaceChildren(
      ...rows.map(({ target, color, cells }) => {
        const row = element("tr");
        const name = element("td", "target");
        name.append(swatch(color), target);
        row.append(name, ...cells.map((cell) => element("td", "", cell)));
        return row;
      }),
    );
  }

  async function update() {
    const response = await fetch(`data?since=${Math.max(0, lastSecond() - ASKED_AGAIN)}`);
    if (!response.ok) throw new Error(`Locust answered with status ${response.status}`);
    const answer = await response.json();
    byId("state").textContent = answer.state;
    byId("facts").replaceChildren(...answer.facts.map((fact) => element("span", "", fact)));
    notices(answer.notices);
    byId("downloads").hidden = !answer.rows.length;
    table(answer.rows);
    if (answer.run !== run) {
      if (answer.run && run) {
        // What was asked for began in the middle of this other run.
        columns = {};
        run = null;
        return;
      }
      if (answer.run) startOver(answer);
    } else if (answer.run && namesOf(answer) !== names) {
      draw(answer);
    }
    byId("watch").hidden = !answer.run;
    if (!answer.run) return;
    merge(answer.timeline);
    show(columns);
  }

  async function keepUp() {
    try {
      await update();
    } catch (error) {
      byId("state").textContent = "disconnected";
      notices([{ level: "bad", text: `No answer from Locust any more: ${error.message}. What is shown below is old.`, reasons: [] }]);
    }
    setTimeout(keepUp, EVERY_MS);
  }

  // Locust's own page keeps the choice of its theme here.
  theme(localStorage.getItem("theme"));
  keepUp();
})();
