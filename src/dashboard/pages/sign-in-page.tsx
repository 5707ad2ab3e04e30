// Sign-in by a token: a session token or an API credential. `#token=<token>` signs in at once.
import { useEffect } from 'preact/hooks';
import { useAction } from '../parts/action.tsx';
import { FaultNote } from '../parts/fault-note.tsx';
import { go, place } from '../router.ts';
import { signIn } from '../session.ts';

export function SignInPage() {
  const { run, fault, isRunning } = useAction(async (token: string) => {
    await signIn(token);
    go(destination(place.value.query.get('to')), { replace: true });
  });
  useEffect(() => {
    const token = new URLSearchParams(window.location.hash.slice(1)).get('token');
    if (window.location.hash !== '')
      go(`${window.location.pathname}${window.location.search}`, { replace: true });
    if (token) void run(token);
  }, []);
  const message = fault?.messageOf('token');
  return (
    <main class="sign-in">
      <h1>Sign in</h1>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          const token = new FormData(event.currentTarget).get('token');
          if (typeof token === 'string') void run(token.trim());
        }}
      >
        <label for="token">Token</label>
        <input
          id="token"
          name="token"
          type="password"
          autocomplete="off"
          spellcheck={false}
          required
          aria-invalid={message === undefined ? undefined : true}
          aria-describedby={message === undefined ? undefined : 'token-fault'}
        />
        {message && (
          <p id="token-fault" class="field-fault">
            {message}
          </p>
        )}
        <button type="submit" disabled={isRunning}>
          Sign in
        </button>
      </form>
      {fault && message === undefined && <FaultNote fault={fault} />}
      <p>
        A session token of your identity provider, or an API credential. <code>kubectl beat dashboard</code>{' '}
        opens this page signed in.
      </p>
    </main>
  );
}

/** A path of this dashboard, and of nothing else. */
function destination(to: string | null): string {
  if (to === null) return '/';
  const { origin } = window.location;
  if (!to.startsWith('/') || !URL.canParse(to, origin)) return '/';
  const url = new URL(to, origin);
  return url.origin === origin ? `${url.pathname}${url.search}` : '/';
}
