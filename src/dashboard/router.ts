// Which page is shown: the address of the window as a signal. Links are ordinary ones; a click inside of the dashboard changes
// the address without a load.
import { signal } from '@preact/signals';

export interface Place {
  path: string;
  query: URLSearchParams;
}

const placeNow = (): Place => ({
  path: window.location.pathname,
  query: new URLSearchParams(window.location.search),
});

export const place = signal<Place>(placeNow());

/** `address`: path and query. `replace`: the way back does not lead to the address before. */
export function go(address: string, { replace = false } = {}): void {
  if (replace) window.history.replaceState(null, '', address);
  else window.history.pushState(null, '', address);
  place.value = placeNow();
}

/** The address of this page with other values in its query; `undefined` takes one out. */
export function withQuery(changes: Readonly<Record<string, string | undefined>>): string {
  const query = new URLSearchParams(place.value.query);
  for (const [name, value] of Object.entries(changes)) {
    if (value === undefined || value === '') query.delete(name);
    else query.set(name, value);
  }
  return query.size === 0 ? place.value.path : `${place.value.path}?${query}`;
}

export function startRouter(): void {
  window.addEventListener('popstate', () => {
    place.value = placeNow();
  });
  document.addEventListener('click', (event) => {
    const link = event.target instanceof Element ? event.target.closest('a') : null;
    if (!link || !isPlainClick(event) || !isOfDashboard(link)) return;
    event.preventDefault();
    go(`${link.pathname}${link.search}`);
  });
}

function isPlainClick(event: MouseEvent): boolean {
  return (
    event.button === 0 &&
    !event.defaultPrevented &&
    !event.metaKey &&
    !event.ctrlKey &&
    !event.shiftKey &&
    !event.altKey
  );
}

function isOfDashboard(link: HTMLAnchorElement): boolean {
  return (
    link.origin === window.location.origin &&
    link.target === '' &&
    link.hash === '' &&
    !link.hasAttribute('download') &&
    !link.pathname.startsWith('/docs')
  );
}
