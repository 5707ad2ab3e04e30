// What a pod asks for of what a ResourceQuota counts, by the template of its Job. Pure.
import { thousandths } from './quantity.ts';

interface Resources {
  requests?: Record<string, string | number>;
  limits?: Record<string, string | number>;
}

interface Container {
  restartPolicy?: string;
  resources?: Resources;
}

/** As far as needs go. */
export interface TemplateSpec {
  containers?: readonly Container[];
  initContainers?: readonly Container[];
  overhead?: Record<string, string | number>;
  /** Of the pod as a whole. */
  resources?: Resources;
}

/** In thousandths, by `requests.cpu`, `limits.memory` and the like. What the template does not state is absent. */
export type PodNeeds = Readonly<Record<string, number>>;

type Needs = Record<string, number>;

export function needsOf(spec: TemplateSpec = {}): PodNeeds {
  const { containers = [], initContainers = [], overhead, resources } = spec;
  // Those that start again run beside the others.
  const isSidecar = ({ restartPolicy }: Container) => restartPolicy === 'Always';
  const sidecars = initContainers.filter(isSidecar);
  const running = [...containers, ...sidecars].map(ofContainer).reduce(sum, {});
  const beside = sidecars.map(ofContainer).reduce(sum, {});
  const first = initContainers.filter((one) => !isSidecar(one)).map((one) => sum(ofContainer(one), beside));
  const own = { ...first.reduce(greater, running), ...ofContainer({ ...(resources && { resources }) }) };
  const extra = overhead === undefined ? {} : { requests: overhead, limits: overhead };
  const whole = sum(own, ofContainer({ resources: extra }));
  return Object.fromEntries(Object.entries(whole).filter(([name]) => own[name] !== undefined));
}

/** A limit without a request is the request too. */
function ofContainer({ resources: { requests = {}, limits = {} } = {} }: Container): Needs {
  const all: Needs = {};
  for (const [name, amount] of Object.entries({ ...limits, ...requests }))
    all[`requests.${name}`] = thousandths(amount) ?? 0;
  for (const [name, amount] of Object.entries(limits)) all[`limits.${name}`] = thousandths(amount) ?? 0;
  return all;
}

const merge = (a: Needs, b: Needs, of: (x: number, y: number) => number): Needs => {
  const names = Object.keys({ ...a, ...b });
  return Object.fromEntries(names.map((name) => [name, of(a[name] ?? 0, b[name] ?? 0)]));
};
const sum = (a: Needs, b: Needs) => merge(a, b, (x, y) => x + y);
const greater = (a: Needs, b: Needs) => merge(a, b, Math.max);
