// A machine's fields under the hand (behind page.js): fields → features → encoder → cycles, as perfvec.machines does it.
const page = JSON.parse(document.getElementById("data").textContent);
const at = id => document.getElementById(id);

// Formulas (uarch/formula.py): nested lists become functions of a machine's fields.

const number = value => typeof value === "number" ? value : NaN;
const fold = operation => parts => values => parts.map(part => part(values)).reduce(operation);
const operations = {
  "+": fold((a, b) => a + b), "-": fold((a, b) => a - b), "*": fold((a, b) => a * b), "/": fold((a, b) => a / b),
  "min": fold((a, b) => a < b || Number.isNaN(b) ? a : b), "<=": fold((a, b) => a <= b), ">=": fold((a, b) => a >= b),
  ">": fold((a, b) => a > b), "!=": fold((a, b) => a !== b), "and": fold((a, b) => a && b), "or": fold((a, b) => a || b),
  "not": ([a]) => values => !a(values), "log2": ([a]) => values => Math.log2(a(values)),
  "else": ([a, b]) => values => { const found = a(values); return Number.isNaN(found) ? b(values) : found; },
  "power of two": ([a]) => values => Number.isInteger(a(values)) && Number.isInteger(Math.log2(a(values))),
};
function compile(formula) {
  if (typeof formula === "number") return () => formula;
  if (typeof formula === "string") return values => number(values[formula]);
  const [kind, ...parts] = formula;
  if (kind === "is") return values => +(values[parts[0]] === parts[1]);
  if (kind === "has") return values => +Number.isFinite(number(values[parts[0]]));
  if (kind === "choose") {
    const other = compile(parts[3]), numbers = new Map(parts[1].map((name, k) => [name, parts[2][k]]));
    return values => numbers.get(values[parts[0]]) ?? other(values);
  }
  return operations[kind](parts.map(compile));
}
const quantities = page.quantities.map(([name, formula]) => [name, compile(formula)]);
const features = page.features.map(compile);
const relations = page.relations.map(relation => ({ ...relation, holds: compile(relation.condition) }));

// The encoder (perfvec/machines/encoder.py).

function floats(base64) {
  const bytes = Uint8Array.from(atob(base64), letter => letter.charCodeAt(0));
  return new Float32Array(bytes.buffer);
}
const unpack = layer => ({ weight: floats(layer.weight), bias: floats(layer.bias) });
const encoder = { ...page.encoder, mean: floats(page.encoder.mean), scale: floats(page.encoder.scale) };
encoder.linear = unpack(page.encoder.linear);
encoder.correction = page.encoder.correction.map(layer => layer.weight ? unpack(layer) : layer);
encoder.limit ??= Infinity;

function affine({ weight, bias }, x) {
  return Array.from(bias, (sum, row) => {
    for (let k = 0, place = row * x.length; k < x.length; k++) sum += weight[place + k] * x[k];
    return sum;
  });
}
const functions = { SiLU: x => x.map(value => value / (1 + Math.exp(-value))) };  // of torch.nn, by their names
const applied = (x, layer) => layer.weight ? affine(layer, x) : functions[layer](x);
function cyclesOf(fields) {  // of every program
  const values = { ...fields };
  for (const [name, formula] of quantities) values[name] = formula(values);
  const plain = Array.from(encoder.mean, (mean, k) =>
    Math.max(-encoder.limit, Math.min(encoder.limit, (Math.fround(+features[k](values)) - mean) * encoder.scale[k])));
  const x = [...plain, ...encoder.hinges.flatMap(hinge => plain.map(value => Math.max(0, value - hinge)))];
  const corrected = encoder.correction.reduce(applied, x);
  const output = affine(encoder.linear, x).map((value, k) => value + corrected[k]);
  const pace = Math.exp(encoder.pace + output[0]);
  const costs = output.slice(output.length - encoder.costs).map(cost => Math.exp(Math.min(encoder.pace + cost, encoder.largest)));
  return page.programs.map(({ middle, onto, events }) =>
    pace * onto.reduce((sum, value, k) => sum + value * output[k + 1], middle)
    + events.reduce((sum, value, k) => sum + value * costs[k], 0));
}

// Simulated and corrected cycles (analysis/questions/explored.py), where the budget that the page was made with allowed them.

const SOURCES = ["simulated", "corrected", "table", "fitted", "zero-shot", "scaled"];
const unpacked = (base64, kind) => new kind(Uint8Array.from(atob(base64), letter => letter.charCodeAt(0)).buffer);
const grid = page.explored && { ...page.explored };
if (grid) {
  const codes = grid.codes.map(one => unpacked(one, Uint16Array));
  const strides = grid.levels.map((_, k) => grid.levels.slice(k + 1).reduce((size, levels) => size * levels.length, 1));
  grid.placeOf = options => options.reduce((sum, option, k) => sum + option * strides[k], 0);
  grid.rows = new Map();
  for (let row = 0; row < grid.points; row++) grid.rows.set(grid.placeOf(codes.map(code => code[row])), row);
  grid.programs = grid.programs.map(one => one && { source: unpacked(one.source, Uint8Array),
    cycles: unpacked(one.cycles, Float64Array), low: unpacked(one.low, Float32Array), high: unpacked(one.high, Float32Array),
    apart: unpacked(one.apart, Float32Array) });
}
function cornersOf(fields) {  // the points around a machine within the grid, with their weights; null outside
  if (!grid) return null;
  const names = Object.keys(fields).filter(name => !grid.fields.includes(name));
  if (names.length !== Object.keys(grid.fixed).length || names.some(name => grid.fixed[name] !== fields[name])) return null;
  let corners = [[[], 1]];
  for (const [k, field] of grid.fields.entries()) {
    const levels = grid.levels[k], value = fields[field] ?? null, at = levels.indexOf(value);
    let around = [[at, 1]];
    if (at < 0) {
      if (typeof value !== "number") return null;
      const above = levels.findIndex(level => level !== null && level > value);
      if (above < 1 || levels[above - 1] === null) return null;
      const [low, high] = [levels[above - 1], levels[above]];
      const part = Math.log((1 + value) / (1 + low)) / Math.log((1 + high) / (1 + low));
      around = [[above - 1, 1 - part], [above, part]];
    }
    corners = corners.flatMap(([options, weight]) => around.map(([option, part]) => [[...options, option], weight * part]));
  }
  const found = corners.map(([options, weight]) => [grid.rows.get(grid.placeOf(options)), weight]);
  return found.every(([row]) => row !== undefined) ? found : null;
}
// Cycles of one program with the ends of their interval and their source; null where nothing was simulated.
function simulatedAnswer(fields, program) {
  const ranged = (cycles, low, high, source = "simulated") =>
    low === high ? { cycles, low: NaN, high: NaN, source } : { cycles, low, high, source };
  const known = page.machines.find(one => one.simulated && one.simulated[program] !== null && same(one.fields, fields));
  if (known) return ranged(...["cycles", "low", "high"].map(name => known.simulated[program][name]));
  const answers = grid && grid.programs[program], corners = answers && cornersOf(fields);
  if (!corners) return null;
  if (corners.length === 1) {
    const row = corners[0][0], source = SOURCES[answers.source[row]];
    return source === "zero-shot" ? null : ranged(answers.cycles[row], answers.low[row], answers.high[row], source);
  }
  if (corners.some(([row]) => ["zero-shot", "scaled"].includes(SOURCES[answers.source[row]]))) return null;
  const mean = values => Math.exp(corners.reduce((sum, [row, weight]) => sum + weight * Math.log(values[row]), 0));
  return { cycles: mean(answers.cycles), low: mean(answers.low), high: mean(answers.high), source: "corrected" };
}
// Half of the interval of the logarithm of a machine's cycles over those of the grid's middle; NaN where it is not known,
// or where the page did not begin there.
function apartFromStart(fields, program) {
  const answers = grid && grid.programs[program], begun = answers && cornersOf(start.fields), corners = begun && cornersOf(fields);
  if (!corners || begun.length > 1 || answers.apart[begun[0][0]] !== 0) return NaN;
  return corners.reduce((sum, [row, weight]) => sum + weight * answers.apart[row], 0);
}
function answerOf(fields, program) {
  return simulatedAnswer(fields, program) ?? { cycles: cyclesOf(fields)[program], low: NaN, high: NaN, source: "zero-shot" };
}

// What a machine may be (uarch/constraints.py), and what taught the encoder.

function wrong(field, value) {  // the rule of a single field
  if (field.names) return !field.names.includes(value);
  const power = !field.power_of_two || value === 0 || Number.isInteger(Math.log2(value));
  return !(value >= field.low && value <= field.high) || (field.whole && !Number.isInteger(value)) || !power;
}
function broken(machine) {  // why it is no machine
  const found = page.fields.filter(field => field.field in machine && wrong(field, machine[field.field]))
    .map(field => `${field.field} = ${machine[field.field]} must be ${field.must}`);
  for (const relation of relations) {
    if (relation.holds(machine)) continue;
    const bound = relation.bound.replace(/\{([^}]+)\}/g, (_, name) => machine[name]);
    found.push(`${relation.field} = ${machine[relation.field]} must be ${bound}`);
  }
  return found;
}
const close = (value, bound, sign) => sign * value >= sign * bound * (1 - sign * 1e-6);  // ranges are float32
function beyond(machine) {
  const found = [];
  for (const field of page.fields) {
    const value = machine[field.field];
    if (value === undefined) continue;
    if (field.names) { if (field.never.includes(value)) found.push(`${field.field} = ${value} (never)`); continue; }
    const [low, high] = field.seen;
    if (field.never) found.push(`${field.field} = ${value} (never)`);
    else if ((low !== null && !close(value, low, 1)) || (high !== null && !close(value, high, -1)))
      found.push(`${field.field} = ${value} (${+(low ?? -Infinity).toPrecision(6)} to ${+(high ?? Infinity).toPrecision(6)})`);
  }
  const told = Object.keys(machine).map(field => page.no_inputs.includes(field.split(".")[0]) ? field.split(".")[0] : field);
  return [...found, ...new Set(told.filter(field => page.no_inputs.includes(field)).map(field => `${field} (no input)`))];
}

// Attribution (analysis/questions/attribute.py): Shapley values over all machines between this one and the ideal one.

function idealGroups(machine) {
  return page.ideal[machine.core].map(group => ({ name: group.name,
    fields: Object.entries(group.fields).filter(([field]) => ("l3.size_kib" in machine || !field.startsWith("l3.")) &&
      (field in machine || !page.optional.includes(field))) }));
}
function attribution(machine, program) {
  const groups = idealGroups(machine), count = groups.length, worth = [];
  for (let set = 0; set < 1 << count; set++) {
    const fields = { ...machine };
    groups.forEach((group, k) => {
      if (set >> k & 1) for (const [field, value] of group.fields) value === null ? delete fields[field] : fields[field] = value;
    });
    const reasons = set ? broken(fields) : [];
    if (reasons.length) return { reason: reasons[0] };
    worth.push(cyclesOf(fields)[program]);
  }
  const size = set => { let bits = 0; for (; set; set &= set - 1) bits++; return bits; };
  const weight = page.shares[count - 1];
  const values = groups.map((group, k) => {
    let saved = 0;
    for (let set = 0; set < worth.length; set++)
      if (!(set >> k & 1)) saved += weight[size(set)] * (worth[set] - worth[set | 1 << k]);
    return { name: group.name, cycles: saved };
  });
  return { whole: worth[0], values: [...values, { name: "the ideal machine itself", cycles: worth[worth.length - 1] }] };
}

// The machine under the hand.

let start, machine;
const rows = new Map();
const belongs = (field, core) => field.cores.includes("any") || field.cores.includes(core);
function begin(index) {
  start = page.machines[index];
  machine = { ...start.fields };
  showAll();
}
function withField(fields, field, value) {  // a copy with this field, and with what goes with it
  const made = { ...fields, [field]: value }, defaults = page.defaults[made.core];
  if (field === "core") {
    for (const one of page.fields) {
      if (!belongs(one, value)) delete made[one.field];
      else if (one.field.startsWith("pipeline.") && one.field in defaults) made[one.field] ??= defaults[one.field];
    }
  }
  if (field === "memory.model") {
    for (const name of ["memory.latency_ns", "memory.bandwidth_gbs"])
      value === "simple" ? made[name] ??= defaults[name] : delete made[name];
  }
  return made;
}
function change(field, value) {
  machine = withField(machine, field, value);
  showAll();
}
function changeL3(present) {
  const defaults = start.fields["l3.size_kib"] ? start.fields : page.defaults[machine.core];
  for (const field of Object.keys({ ...machine, ...defaults }).filter(field => field.startsWith("l3.")))
    present ? machine[field] ??= defaults[field] : delete machine[field];
  showAll();
}
const nearest = (stops, value) => stops.reduce((best, stop, k) => Math.abs(stop - value) < Math.abs(stops[best] - value) ? k : best, 0);

function possibleStop(field, wanted) {  // the slider passes over what cannot be: a cache of no whole number of sets
  const own = relations.filter(relation => relation.field === field.field);
  const can = k => own.every(relation => relation.holds({ ...machine, [field.field]: field.stops[k] }));
  const order = field.stops.map((_, k) => k).sort((a, b) => Math.abs(a - wanted) - Math.abs(b - wanted));
  return order.find(can) ?? wanted;
}
function element(kind, properties = {}, ...children) {
  const made = Object.assign(document.createElement(kind), properties);
  made.append(...children);
  return made;
}
const titles = { "": "Core and clock", pipeline: "Pipeline", functional_units: "Functional units",
  branch_predictor: "Branch predictor", l1i: "L1 instruction cache", l1d: "L1 data cache", l2: "L2", l3: "L3", tlb: "TLB",
  memory: "Memory" };
function control(field) {
  const id = `field-${field.field}`, name = field.field.split(".").pop();
  const row = element("div", { className: "row", title: field.field }, element("label", { htmlFor: id }, name.replaceAll("_", " ")));
  if (field.names) {
    const select = element("select", { id });
    field.names.forEach(one => select.add(new Option(one, one)));
    select.addEventListener("input", () => change(field.field, select.value));
    row.append(select);
    rows.set(field.field, { field, row, show: value => { select.value = value; } });
  } else {
    const slider = element("input", { type: "range", min: 0, max: field.stops.length - 1, step: 1 });
    slider.setAttribute("aria-label", field.field);
    const exact = element("input", { type: "number", id, step: field.whole ? 1 : "any", min: field.low, max: field.high });
    slider.addEventListener("input", () => change(field.field, field.stops[possibleStop(field, +slider.value)]));
    exact.addEventListener("input", () => change(field.field, exact.value === "" ? NaN : +exact.value));
    row.append(slider, exact);
    rows.set(field.field, { field, row, show: value => {
      slider.value = nearest(field.stops, value);
      if (document.activeElement !== exact && +exact.value !== value || exact.value === "" && !Number.isNaN(value)) exact.value = value;
    } });
  }
  return row;
}
function build() {
  const groups = new Map();
  for (const field of page.fields) {
    const section = field.field.includes(".") ? field.field.split(".")[0] : "";
    if (!groups.has(section)) {
      const box = element("details", { className: "section", open: true }, element("summary", {}, element("h2", {}, titles[section])));
      if (section === "l3") {
        const present = element("input", { type: "checkbox", id: "has-l3" });
        present.addEventListener("input", () => changeL3(present.checked));
        box.append(element("div", { className: "row" }, element("label", { htmlFor: "has-l3" }, "present"), present));
      }
      groups.set(section, box);
      at("controls").append(box);
    }
    groups.get(section).append(control(field));
  }
  const kinds = Map.groupBy(page.machines.map((one, index) => ({ ...one, index })), one => one.kind);
  for (const [kind, list] of kinds) {
    const group = element("optgroup", { label: kind });
    list.forEach(one => group.append(new Option(one.name, one.index)));
    at("start").append(group);
  }
  page.programs.forEach((program, k) => at("program").add(new Option(program.name, k)));
  for (const id of ["across", "up"]) page.fields.forEach(one => at(id).add(new Option(one.field, one.field)));
  at("across").value = "l1d.size_kib";
  at("up").value = "l2.size_kib";
  at("start").addEventListener("input", () => begin(+at("start").value));
  at("reset").addEventListener("click", () => begin(+at("start").value));
  for (const id of ["program", "across", "up"]) at(id).addEventListener("input", showAll);
  at("copy").addEventListener("click", copy);
}

// What is shown.

let waiting = false;
function showAll() {  // once a frame at most
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; show(); });
}
function show() {
  for (const { field, row, show: set } of rows.values()) {
    const value = machine[field.field];
    row.hidden = value === undefined;
    row.classList.toggle("changed", !row.hidden && value !== start.fields[field.field]);
    row.classList.toggle("wrong", !row.hidden && wrong(field, value));
    if (!row.hidden) set(value);
  }
  for (const box of at("controls").querySelectorAll(".section")) box.hidden = !box.querySelector(".row:not([hidden])");
  at("has-l3").checked = "l3.size_kib" in machine;
  const reasons = broken(machine), outside = beyond(machine);
  at("told").replaceChildren(...reasons.map(text => element("li", { className: "broken" }, `Invalid machine: ${text}`)),
    ...(outside.length ? [element("li", { className: "beyond" }, `Beyond what the encoder was trained on: ${outside.join(", ")}`)] : []));
  showPredictions(!reasons.length);
  showAttribution(!reasons.length);
  showHeat();
  at("yaml").textContent = yaml();
  showHead(!reasons.length);
  document.documentElement.dataset.shown = +(document.documentElement.dataset.shown ?? 0) + 1;
}
const same = (a, b) => Object.keys(a).length === Object.keys(b).length && Object.keys(a).every(key => a[key] === b[key]);
// The answer for the machine, and its time beside the starting machine's. Both sides are of one source: simulated or
// corrected, or the model's.
function answerBeside(program) {
  const now = answerOf(machine, program), begun = simulatedAnswer(start.fields, program);
  const [before, after] = begun && now.source !== "zero-shot" ? [begun.cycles, now.cycles]
    : [start.fields, machine].map(fields => cyclesOf(fields)[program]);
  const ratio = after / machine.frequency_ghz / (before / start.fields.frequency_ghz);
  return { ...now, ratio, apart: begun && now.source !== "zero-shot" ? apartFromStart(machine, program) : NaN };
}
const percent = share => +(100 * share).toPrecision(6);
const digits = (value, most = 4) => value.toLocaleString("en", { maximumSignificantDigits: Math.max(most, String(Math.trunc(Math.abs(value))).length) });
function showPredictions(possible) {
  const bare = page.programs.map((_, k) => !simulatedAnswer(machine, k));  // of the others predict says what stands here
  const known = bare.some(one => one) ? page.machines.find(one => one.cycles && same(one.fields, machine)) : undefined;
  const heads = ["program", "time, ms", "cycles", "CPI", `beside ${start.name}`, ...(known ? ["cycles, as predict says"] : []),
    "source", ...(grid ? ["95 % of cycles"] : [])].map(head => head.replace("95 %", `${percent(grid?.level ?? 0.95)} %`));
  const body = page.programs.map((program, k) => {
    const now = answerBeside(k), seconds = now.cycles / machine.frequency_ghz / 1e9;
    const values = [seconds * 1e3, now.cycles, now.cycles / program.instructions, now.ratio, ...(known ? [bare[k] ? known.cycles[k] : NaN] : [])];
    const texts = [digits(values[0]), digits(values[1]), values[2].toFixed(3), `${values[3].toFixed(3)} ×`, Number.isNaN(values[4] ?? NaN) ? "–" : digits(values[4])];
    const cells = values.map((value, column) => {
      const cell = element("td", {}, possible ? texts[column] : "–");
      if (possible) cell.dataset.value = value;
      return cell;
    });
    const within = Number.isNaN(now.low) ? "–" : `${digits(now.low)} to ${digits(now.high)}`;
    const told = element("td", { className: "text source" }, possible ? now.source : "–");
    if (possible) Object.assign(told.dataset, { low: now.low, high: now.high });
    return element("tr", {}, element("td", { className: "text" }, program.name), ...cells, told,
      ...(grid ? [element("td", { className: "within" }, possible ? within : "–")] : []));
  });
  at("predictions").replaceChildren(
    element("thead", {}, element("tr", {}, ...heads.map((head, k) => element("th", { className: k ? "" : "text" }, head)))),
    element("tbody", {}, ...body));
  if (known) at("told").append(element("li", { className: "quiet" }, `predict has a trained or fitted vector of ${known.name}; ` +
    "the other zero-shot numbers are the encoder's, as in a sweep."));
  if (grid && possible && page.programs.every((_, k) => !simulatedAnswer(machine, k)))
    at("told").append(element("li", { className: "quiet" }, `Beyond the simulated grid around ${grid.base} (${grid.fields.join(", ")}): ` +
      "the model answers alone."));
}
const inUnits = seconds => {
  const [unit, factor] = [["s", 1], ["ms", 1e3], ["µs", 1e6], ["ns", 1e9]].find(([, factor]) => seconds * factor >= 1) ?? ["ns", 1e9];
  return [digits(seconds * factor, 3), unit];
};
function showHead(possible) {  // the answer for the chosen program
  const program = +at("program").value, name = page.programs[program].name, changed = !same(machine, start.fields);
  const here = changed ? `${start.name} as changed` : start.name;
  if (!possible) {
    [at("big").textContent, at("unit").textContent, at("source").textContent] = ["–", "", ""];
    at("sentence").textContent = `${here} can be no machine: the reason stands below the predictions.`;
    return;
  }
  const now = answerBeside(program), seconds = now.cycles / machine.frequency_ghz / 1e9;
  [at("big").textContent, at("unit").textContent] = inUnits(seconds);
  const ends = [-now.apart, now.apart].map(apart => (now.ratio * Math.exp(apart)).toFixed(3));
  const range = now.apart > 0 ? ` (${ends.join(" to ")})` : "";
  const beside = changed ? `, ${now.ratio.toFixed(3)}${range} times what it takes on ${start.name}` : "";
  at("sentence").textContent = `${name} takes ${inUnits(seconds).join(" ")} on ${here}: ` +
    `${(now.cycles / page.programs[program].instructions).toFixed(3)} cycles per instruction${beside}.`;
  const sampled = now.source === "simulated" && !Number.isNaN(now.low);
  at("source").textContent = `Source: ${sampled ? "simulated by a sample" : TOLD[now.source] ?? now.source}` +
    (Number.isNaN(now.low) ? "" : `, ${percent(grid.level)} % interval ${relative(now.low, now.cycles)} to ${relative(now.high, now.cycles)}`);
}
const relative = (end, cycles) => `${end < cycles ? "−" : "+"}${digits(Math.abs(100 * (end / cycles - 1)), 2)} %`;
const TOLD = { simulated: "simulated, every instruction", corrected: "corrected by simulated points",
  scaled: "the model, scaled to the simulated points",
  "zero-shot": "zero-shot, the model from the machine's configuration alone; perfvec predict gives the interval" };
const narrow = () => at("heat").clientWidth < NARROW;
const small = height => ({ height, margin: { l: 90, r: paper ? 58 : 20, t: 30, b: 45 }, showlegend: false, hovermode: "closest" });
function draw(name, traces, layout) {
  at(name).style.height = `${layout.height}px`;  // Plotly's own goes where the window changes its size while it draws
  Plotly.react(at(name), traces, { ...themed(layout, narrow()), width: paper }, options(narrow()));
}
function showAttribution(possible) {
  const found = possible ? attribution(machine, +at("program").value) : { reason: "this is no machine" };
  const values = [...(found.values ?? [])].reverse();
  const ends = [Math.min(0, ...values.map(one => one.cycles)), Math.max(0, ...values.map(one => one.cycles))];
  const room = (at("attribution").clientWidth < 500 ? 0.45 : 0.15) * (ends[1] - ends[0]);  // for what stands behind the bars
  const layout = { ...small(290), xaxis: { title: { text: "cycles", standoff: 6 }, zeroline: true, zerolinecolor: css("--line"),
      range: [ends[0] < 0 ? ends[0] - room : 0, ends[1] + room], nticks: 5 },
    yaxis: { type: "category", automargin: true },
    annotations: found.reason ? [{ text: `None: ${found.reason}`, showarrow: false, x: 0.5, y: 0.5, xref: "paper", yref: "paper" }] : [] };
  const bars = { type: "bar", orientation: "h", x: values.map(one => one.cycles), y: values.map(one => one.name),
    marker: { color: values.map(one => one.name.startsWith("the ideal") ? "#888888" : css("--accent")) },
    text: values.map(one => `${(100 * one.cycles / found.whole).toFixed(1)} %`), textposition: "outside", cliponaxis: false,
    hovertemplate: "%{y}: %{x:,.6~r} cycles, %{text}<extra></extra>" };
  draw("attribution", [bars], layout);
}
function spread(field, within) {  // values of an axis: names, or at most 24 of the grid's or the slider's stops
  if (!within && field.names) return field.names;
  const every = within ? grid.levels[grid.fields.indexOf(field.field)].filter(level => level !== null) : field.stops;
  const step = Math.max(1, Math.ceil(every.length / 24));
  return every.filter((_, k) => k % step === 0);
}
function showHeat() {
  const program = +at("program").value, names = [at("across").value, at("up").value];
  const [x, y] = names.map(name => page.fields.find(one => one.field === name));
  const present = names.every(name => name in machine) && names[0] !== names[1];
  const layout = { ...small(380), xaxis: { type: "category", title: { text: names[0], standoff: 6 } },
    yaxis: { type: "category", title: { text: names[1], standoff: 6 }, automargin: true } };
  if (!present) {
    layout.annotations = [{ text: "Choose two fields that this machine has", showarrow: false, x: 0.5, y: 0.5, xref: "paper", yref: "paper" }];
    at("range").textContent = "";
    draw("heat", [], layout);
    return;
  }
  // One source for all cells: the grid's where it has both fields and this machine, and then only as far as it reaches.
  const within = grid && names.every(name => grid.fields.includes(name)) && grid.programs[program] && cornersOf(machine) &&
    simulatedAnswer(machine, program);
  let [across, up] = [spread(x, within), spread(y, within)];
  const sources = new Set(within ? [] : ["zero-shot"]);
  const all = up.map(b => across.map(a => {
    const fields = withField(withField(machine, names[0], a), names[1], b);
    const lost = names.some((name, k) => fields[name] !== [a, b][k]) || [x, y].some(one => !belongs(one, fields.core));
    if (lost || broken(fields).length) return null;
    const answer = within ? simulatedAnswer(fields, program) : null;
    if (answer) sources.add(answer.source);
    const cycles = within ? answer?.cycles : cyclesOf(fields)[program];
    return cycles ? cycles / fields.frequency_ghz / 1e6 : null;
  }));
  // Rows and columns in which no machine can be are left out.
  const rowsLeft = up.map((_, r) => r).filter(r => all[r].some(value => value !== null));
  const columnsLeft = across.map((_, c) => c).filter(c => all.some(row => row[c] !== null));
  [across, up] = [columnsLeft.map(c => across[c]), rowsLeft.map(r => up[r])];
  const z = rowsLeft.map(r => columnsLeft.map(c => all[r][c]));
  const place = (field, values) => String(field.names || !values.length ? machine[field.field] : values[nearest(values, machine[field.field])]);
  const times = z.flat().filter(value => value !== null), least = Math.min(...times), most = Math.max(...times);
  const fixed = Math.max(most, page.contrast * least);  // of a narrow range the colours are alike
  at("range").textContent = times.length ? `${digits(least)} to ${digits(most)} ms, up to ${(100 * (most / least - 1)).toFixed(1)} % above the least; ` +
    `the colours reach to ${(100 * (fixed / least - 1)).toFixed(0)} % above it. Source: ${SOURCES.filter(one => sources.has(one)).join(" and ")}.` : "";
  const cells = { type: "heatmap", zmin: least, zmax: fixed, x: across.map(String), y: up.map(String), z, colorscale: "Cividis", xgap: 1, ygap: 1,
    hoverongaps: false, colorbar: { title: { text: "ms", side: "right" }, thickness: 12, outlinewidth: 0 },
    hovertemplate: `${names[0]} %{x}<br>${names[1]} %{y}<br>%{z:,.6~r} ms<extra></extra>` };
  const here = { visible: z.length > 0, type: "scatter", mode: "markers", x: [place(x, across)], y: [place(y, up)], hoverinfo: "skip",
    marker: { symbol: "circle-open", size: 14, color: "#D55E00", line: { width: 3 } } };
  draw("heat", [cells, here], layout);
}
function yaml() {
  const changed = !same(machine, start.fields), sections = new Map([["", [`name: ${JSON.stringify(start.name + (changed ? "-explored" : ""))}`]]]);
  for (const { field } of page.fields) {
    const [head, tail] = field.includes(".") ? field.split(".") : ["", field];
    if (!sections.has(head)) sections.set(head, []);
    if (field in machine) sections.get(head).push(`${tail}: ${machine[field]}`);
  }
  const lines = [];
  for (const [head, own] of sections) {
    if (!head) lines.push(...own);
    else if (own.length) lines.push(`${head}:`, ...own.map(line => `  ${line}`));
    else if (head === "l3") lines.push("l3: null");
  }
  return lines.join("\n") + "\n";
}
async function copy() {
  try { await navigator.clipboard.writeText(at("yaml").textContent); at("copy").textContent = "Copied"; }
  catch { getSelection().selectAllChildren(at("yaml")); at("copy").textContent = "Selected: press Ctrl+C"; }
  setTimeout(() => { at("copy").textContent = "Copy as YAML"; }, 1500);
}
async function main() {
  await loadPlotly();
  build();
  begin(0);
  dark.addEventListener("change", showAll);
  addEventListener("resize", showAll);
  onPaper(show);  // now: the next frame is too late
  document.querySelectorAll("#results details").forEach(one => one.addEventListener("toggle", showAll));
  document.documentElement.dataset.ready = "yes";
}
main();
