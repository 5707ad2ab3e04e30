// A table that may be wider than the window: it scrolls by itself, by keyboard too.
import type { ComponentChildren } from 'preact';

export function Scroll({ label, children }: { label: string; children: ComponentChildren }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: who has no pointer scrolls what has the focus
    <section class="scroll" aria-label={label} tabIndex={0}>
      {children}
    </section>
  );
}
