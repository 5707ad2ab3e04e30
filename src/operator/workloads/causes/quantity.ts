// Quantities of Kubernetes (`500m`, `2Gi`, `1e3`) as whole thousandths, so that sums of them compare exactly. Pure.

const FACTORS: Readonly<Record<string, number>> = {
  ...{ n: 1e-9, u: 1e-6, m: 1e-3, '': 1, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18 },
  ...{ Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50, Ei: 2 ** 60 },
};

/** Undefined: it is none. What is finer than a thousandth counts as one, as in Kubernetes. */
export function thousandths(text: string | number | undefined): number | undefined {
  const [, number, exponent, unit = ''] =
    /^([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d+)|([numkMGTPE]|[KMGTPE]i))?$/.exec(
      String(text ?? '').trim(),
    ) ?? [];
  const factor = FACTORS[unit];
  if (number === undefined || factor === undefined) return undefined;
  const value = Number(`${number}${exponent ?? ''}`) * factor * 1000;
  // Decimal fractions are not exact in binary: 0.29 * 1000 is a little less than 290.
  const nearest = Math.round(value);
  return Math.abs(value - nearest) < 1e-6 ? nearest : Math.ceil(value);
}
