// The script of /docs/try: a form for each operation of the OpenAPI document, sent by the browser to the service that the
// page came from. It keeps the token in its field alone, and stores nothing.

/** The operations of /v1, as the form needs them. */
export function operationsOf(contract) {
  const paths = Object.entries(contract.paths).filter(([path]) => path.startsWith('/v1/'));
  return paths.flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({
      id: operation.operationId,
      title: operation.summary,
      method: method.toUpperCase(),
      path,
      parameters: (operation.parameters ?? []).map((one) => resolve(contract, one)),
      body: bodyOf(operation.requestBody),
    })),
  );
}

function resolve(contract, value) {
  if (!value.$ref) return value;
  const [, , kind, name] = value.$ref.split('/');
  return contract.components[kind][name];
}

function bodyOf(requestBody) {
  if (!requestBody) return undefined;
  const [[type, { example }]] = Object.entries(requestBody.content);
  return { type, text: JSON.stringify(example, null, 2) };
}

/**
 * What `fetch` takes. `values`: the texts of the fields, by `<in>.<name>`; what is empty is left out. Several values of one
 * parameter are separated by blanks.
 */
export function requestOf({ method, path, parameters, body }, { token, values, text }) {
  const stated = (where) =>
    parameters
      .filter((one) => one.in === where && values[`${where}.${one.name}`])
      .map((one) => ({ ...one, value: values[`${where}.${one.name}`] }));
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name) => encodeURIComponent(values[`path.${name}`] ?? ''));
  const search = new URLSearchParams();
  for (const { name, schema, value } of stated('query')) {
    for (const one of schema?.type === 'array' ? value.split(/\s+/) : [value]) search.append(name, one);
  }
  const headers = Object.fromEntries(stated('header').map(({ name, value }) => [name, value]));
  headers.Authorization = `Bearer ${token}`;
  const hasBody = body !== undefined && text !== '';
  if (hasBody) headers['Content-Type'] = body.type;
  return {
    url: search.size === 0 ? filled : `${filled}?${search}`,
    init: { method, headers, body: hasBody ? text : undefined, credentials: 'omit', cache: 'no-store' },
  };
}

/** What the page shows of an answer. */
export async function describeAnswer(response) {
  const text = await response.text();
  const headers = [...response.headers].map(([name, value]) => `${name}: ${value}`);
  return [`${response.status} ${response.statusText}`.trim(), headers.join('\n'), indented(text)]
    .filter((part) => part !== '')
    .join('\n\n');
}

function indented(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text; // not JSON: as it came
  }
}

/** Runs the page. `page` is its document; `call` sends a request. */
export async function start(page, call) {
  const operations = operationsOf(await (await call('/docs/openapi.json')).json());
  const field = (id) => page.getElementById(id);
  let etag = '';
  const chosen = () => operations.find(({ id }) => id === field('operation').value) ?? operations[0];
  const show = () => {
    const { parameters, body } = chosen();
    field('fields').replaceChildren(...parameters.map((one) => parameterField(page, one, etag)));
    field('body-field').hidden = body === undefined;
    field('body').value = body?.text ?? '';
  };
  field('operation').replaceChildren(...operations.map((one) => optionOf(page, one)));
  field('operation').addEventListener('change', show);
  field('call').addEventListener('submit', async (event) => {
    event.preventDefault();
    const inputs = [...field('fields').querySelectorAll('input')];
    const values = Object.fromEntries(inputs.map(({ name, value }) => [name, value.trim()]));
    const asked = { token: field('token').value.trim(), values, text: field('body').value.trim() };
    const { url, init } = requestOf(chosen(), asked);
    field('answer').textContent = `${init.method} ${url} …`;
    try {
      const response = await call(url, init);
      etag = response.headers.get('etag') ?? etag;
      field('answer').textContent = await describeAnswer(response);
    } catch (error) {
      field('answer').textContent = `No answer: ${error.message}. Is the service still there?`;
    }
  });
  show();
}

function optionOf(page, { id, title, method, path }) {
  const option = page.createElement('option');
  option.value = id;
  option.textContent = `${title}: ${method} ${path}`;
  return option;
}

function parameterField(page, { name, in: where, required, description, example }, etag) {
  const label = page.createElement('label');
  const input = page.createElement('input');
  input.name = `${where}.${name}`;
  input.required = required === true;
  input.autocomplete = 'off';
  input.value = startValue(name, example, etag);
  label.append(`${name} (${where}${required ? ', required' : ''}) `, input);
  if (description) {
    const hint = page.createElement('small');
    hint.textContent = ` ${description}`;
    label.append(hint);
  }
  return label;
}

/** A new key for a new request, and the ETag of the last answer. */
function startValue(name, example, etag) {
  if (name === 'Idempotency-Key') return newKey();
  if (name === 'If-Match') return etag;
  if (example === undefined) return '';
  return Array.isArray(example) ? example.join(' ') : String(example);
}

function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

if (globalThis.document) await start(globalThis.document, (url, init) => fetch(url, init));
