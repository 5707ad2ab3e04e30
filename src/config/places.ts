// The databases of jurisdictions (docs/adr/0013): one variable for each, and what they must not be together.
import { z } from 'zod';
import { JURISDICTIONS, type Jurisdiction } from '../domain/monitor.ts';
import { inVariable, parsePostgresUrl, postgresUrl, text, variable } from './variable.ts';

export interface PlaceSetting {
  jurisdiction: Jurisdiction;
  databaseUrl: string;
}

const jurisdiction = z.enum(JURISDICTIONS);

/** The jurisdictions with a database of their own, in the order of the contract. Default: none. */
export const places = () =>
  variable(
    {
      name: 'JURISDICTION_<NAME>_DATABASE_URL',
      description: `Address of the Postgres database for the monitors of one jurisdiction alone. <NAME>: ${JURISDICTIONS.map(inVariable).join(', ')}. The same for migrate, api and sweeper. Default: they are in that of DATABASE_URL.`,
      words: JURISDICTIONS,
    },
    z
      .partialRecord(jurisdiction, postgresUrl)
      .transform((urls): PlaceSetting[] =>
        JURISDICTIONS.flatMap((name) =>
          urls[name] === undefined ? [] : [{ jurisdiction: name, databaseUrl: urls[name] }],
        ),
      ),
  );

/** For `migrate`. */
export const placeRoles = () =>
  variable(
    {
      name: 'JURISDICTION_<NAME>_DATABASE_APPLICATION_ROLE',
      description:
        'Database role of api and sweeper there, as DATABASE_APPLICATION_ROLE. Default: they have the role of JURISDICTION_<NAME>_DATABASE_URL.',
      words: JURISDICTIONS,
    },
    z.partialRecord(jurisdiction, text),
  );

interface DatabaseSettings {
  databaseUrl: string;
  databaseEngine: 'postgres' | 'citus';
  places: readonly PlaceSetting[];
}

/** Refuses two settings that name one database, and places on Citus. Which database an address leads to is found out there. */
export function requireOwnDatabases(settings: DatabaseSettings, context: z.RefinementCtx): void {
  const owners = new Map([[databaseOf(settings.databaseUrl), 'DATABASE_URL']]);
  for (const { jurisdiction: name, databaseUrl } of settings.places) {
    const refuse = (message: string) => context.addIssue({ code: 'custom', path: ['places', name], message });
    const database = databaseOf(databaseUrl);
    const owner = owners.get(database);
    if (settings.databaseEngine === 'citus')
      refuse(
        'is set, but BEATKEEPER_DATABASE_ENGINE is citus: there no jurisdiction has a database of its own',
      );
    else if (owner !== undefined)
      refuse(`names the database of ${owner}: give the jurisdiction a database of its own`);
    else owners.set(database, `JURISDICTION_${inVariable(name)}_DATABASE_URL`);
  }
}

/** Host, port and name, whatever role and options the address has. */
function databaseOf(databaseUrl: string): string {
  const { hostname, port, pathname, username, searchParams } = parsePostgresUrl(databaseUrl);
  const host = (searchParams.get('host') ?? hostname).toLowerCase() || 'localhost';
  const name = pathname.slice(1) || username;
  return `${host}:${searchParams.get('port') ?? (port || '5432')}/${name}`;
}
