// Metrics of API requests: count, duration, and how many run now. Labels are routes, never paths.
import type { FastifyInstance } from 'fastify';
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { PoolShares } from '../../store/postgres/pool-shares.ts';
import type { OpenCalls } from './open-calls.ts';

const BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

export function registerMetrics(
  app: FastifyInstance,
  registry: Registry,
  { openCalls, shares }: { openCalls: OpenCalls; shares: PoolShares },
): void {
  const requests = new Counter({
    name: 'beatkeeper_api_requests_total',
    help: 'Requests by route and status.',
    labelNames: ['method', 'route', 'status'],
    registers: [registry],
  });
  const durations = new Histogram({
    name: 'beatkeeper_api_request_duration_seconds',
    help: 'Time from the head of a request to the end of its answer.',
    labelNames: ['method', 'route'],
    buckets: BUCKETS,
    registers: [registry],
  });
  new Gauge({
    name: 'beatkeeper_api_requests_in_flight',
    help: 'Calls of operations that run, held open ones too.',
    registers: [registry],
    collect() {
      this.set(openCalls.size);
    },
  });
  new Gauge({
    name: 'beatkeeper_api_database_waiting',
    help: 'Statements and transactions of calls that wait for their turn at the database.',
    registers: [registry],
    collect() {
      this.set(shares.waiting);
    },
  });
  app.addHook('onResponse', (request, reply, done) => {
    const route = request.routeOptions.url ?? 'none';
    requests.inc({ method: request.method, route, status: reply.statusCode });
    durations.observe({ method: request.method, route }, reply.elapsedTime / 1_000);
    done();
  });
}
