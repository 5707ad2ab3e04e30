// Times of Leases and Events: metav1.MicroTime wants exactly six fraction digits.

/** RFC 3339 with six fraction digits: `2026-01-02T03:04:05.006000Z`. */
export function formatMicroTime(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, -1)}000Z`;
}
