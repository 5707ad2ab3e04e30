// The frame of every page: navigation, project, who is signed in. Which page is shown follows from the address.

import { signal } from '@preact/signals';
import type { ComponentType } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { Fault } from './api/fault.ts';
import { IncidentPage } from './pages/incident-page.tsx';
import { MonitorsPage } from './pages/monitors-page.tsx';
import { NowPage } from './pages/now-page.tsx';
import { SignInPage } from './pages/sign-in-page.tsx';
import { useAction } from './parts/action.tsx';
import { FaultNote } from './parts/fault-note.tsx';
import { Heading } from './parts/heading.tsx';
import { go, place } from './router.ts';
import { addressOf, chooseProject, project, projects, readSession, session, signOut } from './session.ts';

const PAGES: readonly { path: string; name: string; page: ComponentType }[] = [
  { path: '/', name: 'Now', page: NowPage },
  { path: '/monitors', name: 'Monitors', page: MonitorsPage },
];

const startFault = signal<Fault | undefined>(undefined);

async function start(): Promise<void> {
  startFault.value = undefined;
  try {
    await readSession();
  } catch (error) {
    startFault.value = error instanceof Fault ? error : new Fault(0, { detail: String(error) });
  }
}

export function App() {
  const isSignIn = place.value.path === '/sign-in';
  useEffect(() => {
    if (!isSignIn && session.value === undefined) void start();
  }, [isSignIn]);
  if (isSignIn) return <SignInPage />;
  if (session.value === 'signed_out') return <ToSignIn />;
  if (session.value === undefined) {
    return (
      <main>
        <h1>Beatkeeper</h1>
        {startFault.value ? (
          <>
            <FaultNote fault={startFault.value} retry={start} />
            <p>
              <a href="/sign-in">Sign in with another token</a>
            </p>
          </>
        ) : (
          <p>Loading…</p>
        )}
      </main>
    );
  }
  return <Frame />;
}

/** Comes back to the page that was asked for. */
function ToSignIn() {
  useEffect(() => {
    const { path, query } = place.value;
    const to = query.size === 0 ? path : `${path}?${query}`;
    go(to === '/' ? '/sign-in' : `/sign-in?${new URLSearchParams({ to })}`, { replace: true });
  }, []);
  return null;
}

function Frame() {
  const { path } = place.value;
  const main = useRef<HTMLElement>(null);
  const before = useRef(path);
  useEffect(() => {
    if (before.current !== path) main.current?.focus();
    before.current = path;
  }, [path]);
  return (
    <>
      <a class="skip" href="#content">
        Skip to the page
      </a>
      <header>
        <a class="brand" href={addressOf('/')}>
          Beatkeeper
        </a>
        <nav aria-label="Pages">
          <ul>
            {PAGES.map((one) => (
              <li key={one.path}>
                <a href={addressOf(one.path)} aria-current={isIn(one.path, path) ? 'page' : undefined}>
                  {one.name}
                </a>
              </li>
            ))}
          </ul>
        </nav>
        <ProjectField />
        <SignOut />
      </header>
      <main id="content" tabIndex={-1} ref={main}>
        <Page />
      </main>
    </>
  );
}

const isIn = (page: string, path: string) => (page === '/' ? path === '/' : path.startsWith(page));

function Page() {
  const { path } = place.value;
  if (project.value === undefined) {
    return (
      <>
        <Heading text="No project" />
        <p>
          Nothing is watched yet. A namespace with a Monitor becomes a project:{' '}
          <a href="/docs/quickstart">begin here</a>.
        </p>
      </>
    );
  }
  const [, incidentId] = /^\/incidents\/([^/]+)$/.exec(path) ?? [];
  const { projectId } = project.value;
  if (incidentId)
    return <IncidentPage key={`${projectId} ${incidentId}`} incidentId={decodeURIComponent(incidentId)} />;
  const found = PAGES.find((one) => one.path === path);
  if (found) return <found.page key={projectId} />;
  return (
    <>
      <Heading text="Not found" />
      <p>
        There is no such page. <a href={addressOf('/')}>See what is wrong now</a>.
      </p>
    </>
  );
}

function ProjectField() {
  return (
    <label class="project">
      Project
      <select
        value={project.value?.name}
        onChange={({ currentTarget }) => chooseProject(currentTarget.value)}
        disabled={projects.value.length < 2}
      >
        {projects.value.map(({ projectId, name }) => (
          <option key={projectId} value={name}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
}

function SignOut() {
  const { run, fault, isRunning } = useAction(signOut);
  const who = typeof session.value === 'object' ? session.value : undefined;
  return (
    <div class="who">
      <span title={who && `${who.organization}, ${who.role}`}>{who?.display}</span>
      <button type="button" onClick={() => run()} disabled={isRunning}>
        Sign out
      </button>
      {fault && <FaultNote fault={fault} />}
    </div>
  );
}
