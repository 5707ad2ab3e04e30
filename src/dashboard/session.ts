// Who is signed in, and in which project they look. The token itself is in a cookie that no script can read.
import { computed, signal } from '@preact/signals';
import type { Project } from '../contract/resources/project.ts';
import { call, send } from './api/call.ts';
import { Fault } from './api/fault.ts';
import { go, place, withQuery } from './router.ts';

export interface Session {
  kind: 'session' | 'credential';
  role: 'viewer' | 'member' | 'owner' | 'operator';
  display: string;
  organization: string;
  /** Of a credential: the only one. */
  projectId?: string;
}

/** Undefined: not known yet. */
export const session = signal<Session | 'signed_out' | undefined>(undefined);
export const projects = signal<readonly Project[]>([]);

/** The project that is looked at: that of the address, else the first one. */
export const project = computed<Project | undefined>(() => {
  const named = place.value.query.get('project');
  const known = projects.value;
  return known.find(({ name, projectId }) => name === named || projectId === named) ?? known[0];
});

/** Whether the principal may change things. */
export const mayManage = computed(() => typeof session.value === 'object' && session.value.role !== 'viewer');

/** Throws Fault where it cannot be known. */
export async function readSession(): Promise<void> {
  try {
    const found = (await send('/dashboard/session', { method: 'GET' })) as Session;
    projects.value = (await readProjects()).sort((one, other) => one.name.localeCompare(other.name));
    session.value = found;
  } catch (error) {
    if (!(error instanceof Fault && error.isSignedOut)) throw error;
    session.value = 'signed_out';
  }
}

async function readProjects(): Promise<Project[]> {
  const found: Project[] = [];
  let cursor: string | undefined;
  do {
    const page = await call('listProjects', { query: { limit: 200, cursor } });
    found.push(...page.items);
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  return found;
}

/** Throws Fault. */
export async function signIn(token: string): Promise<void> {
  await send('/dashboard/session', { method: 'POST', body: { token } });
  await readSession();
  if (session.value === 'signed_out') {
    const detail =
      'The browser did not keep the cookie. Open the dashboard by https, or by http on this machine.';
    throw new Fault(0, { detail });
  }
}

/** Throws Fault. */
export async function signOut(): Promise<void> {
  await send('/dashboard/session', { method: 'DELETE' });
  endSession();
  go('/sign-in');
}

/** The API no longer takes the session. */
export function endSession(): void {
  session.value = 'signed_out';
  projects.value = [];
}

export function chooseProject(name: string): void {
  go(withQuery({ project: name, cursor: undefined }));
}

/** The address of another page, in the project that is looked at. */
export function addressOf(path: string, query: Readonly<Record<string, string>> = {}): string {
  const search = new URLSearchParams(query);
  const name = place.value.query.get('project');
  if (name !== null) search.set('project', name);
  return search.size === 0 ? path : `${path}?${search}`;
}
