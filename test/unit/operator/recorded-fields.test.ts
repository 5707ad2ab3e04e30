// Which fields the API keeps with the origin of an object, and what an object that is made again gives up by them.
import { describe, expect, it } from 'vitest';
import { fieldsToRecord } from '../../../src/operator/pass/recorded-fields.ts';
import { plan } from './resources.ts';

const named = (group: string, count: number) =>
  Array.from({ length: count }, (_, index) => `${group}.k${index}`);

describe('the fields to record', () => {
  it('are those that are recorded, and the new ones', () => {
    expect(fieldsToRecord(['name', 'labels.a'], ['callback', 'name'])).toEqual([
      'callback',
      'labels.a',
      'name',
    ]);
  });

  it('are all measurements, then all labels, where there are too many', () => {
    expect(fieldsToRecord(named('measurements', 190), ['labels.a', ...named('labels', 11)])).toEqual(
      ['labels.a', 'measurements.*', ...named('labels', 11)].sort(),
    );
    expect(fieldsToRecord(named('labels', 190), ['name', ...named('measurements', 11)])).toEqual(
      ['measurements.*', 'name', ...named('labels', 190)].sort(),
    );
    expect(fieldsToRecord(named('labels', 201), ['name'])).toEqual(['labels.*', 'name']);
    const long = Array.from({ length: 32 }, (_, index) => `labels.${index}${'x'.repeat(300)}`);
    expect(fieldsToRecord([], [...long, 'measurements.rows'])).toEqual(['labels.*', 'measurements.*']);
  });

  it('never become more again', () => {
    const recorded = ['labels.*', 'measurements.*', 'name'];
    expect(fieldsToRecord(recorded, ['labels.a', 'measurements.rows.minimum', 'name'])).toEqual(recorded);
  });
});

describe('a plan where all of a group is recorded', () => {
  const patchOf = (...[spec, has, facts]: Parameters<typeof plan>) => {
    const [step] = plan(spec, has, facts).steps;
    return step?.call === 'patch' ? step.patch : undefined;
  };

  it('removes each label that the spec lacks', () => {
    const has = { labels: { a: '1', b: '2' } };
    expect(patchOf({ labels: { a: '1' } }, has, { owned: ['labels.*'] })).toEqual({ labels: { b: null } });
  });

  it('removes each measurement, and each field of one, that the spec lacks', () => {
    const rule = (fields: object) => ({ ...fields }) as never;
    const has = { measurements: { rows: rule({ minimum: 1, maximum: 5 }), size: rule({ maximum: 9 }) } };
    const spec = { labels: {}, measurements: { rows: { minimum: 1 } } };
    expect(patchOf(spec, has, { owned: ['measurements.*'] })).toEqual({
      measurements: { rows: { maximum: null }, size: null },
    });
  });
});
