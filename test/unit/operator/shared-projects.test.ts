// Which namespaces may belong to which projects.
import { describe, expect, it } from 'vitest';
import { matchesGlob, SharedProjects } from '../../../src/operator/known/shared-projects.ts';
import { Blocked } from '../../../src/operator/pass/object.ts';

const listed = new SharedProjects([
  { project: 'Web  Shop', namespaces: ['shop-*', 'checkout'] },
  { project: 'payments', namespaces: ['billing'] },
  { project: 'web shop', namespaces: ['stock'] },
  { project: 'closed', namespaces: [] },
]);

describe('the namespaces of a project', () => {
  it('without a list every namespace may belong to every project', () => {
    expect(new SharedProjects().allows('any', 'other')).toBe(true);
    expect(new SharedProjects([]).allows('any', 'any')).toBe(true);
  });

  it.each([
    ['shop-eu', 'Web Shop', true],
    ['checkout', ' WEB SHOP', true],
    ['stock', 'web shop', true],
    ['shop', 'Web Shop', false],
    ['web-shop', 'Web Shop', false],
    ['billing', 'payments', true],
    // A listed project is for its namespaces alone, also against the one that has its name.
    ['payments', 'payments', false],
    ['closed', 'closed', false],
    // Any other project is for the namespace of its name alone.
    ['billing', 'billing', true],
    ['billing', 'Billing', true],
    ['billing', 'elsewhere', false],
  ])('the namespace %s and the project %s: %s', (namespace, project, isAllowed) => {
    expect(listed.allows(namespace, project)).toBe(isAllowed);
  });

  it('a refusal names the namespace, the project, and the value that would change it', () => {
    const refusal = (namespace: string, project: string): Blocked => {
      try {
        listed.require(namespace, project);
      } catch (error) {
        if (error instanceof Blocked) return error;
      }
      throw new Error('It was not refused.');
    };
    const { reason, message } = refusal('billing', 'web shop');
    expect(reason).toBe('ProjectNotAllowed');
    expect(message).toBe(
      'The namespace billing may not belong to the project "web shop", so its monitors and endpoints there stay as they are. Remove the annotation beatkeeper.dev/project of the namespace, or ask who runs Beatkeeper for the entry {project: "web shop", namespaces: [billing]} of operator.sharedProjects.',
    );
    expect(refusal('payments', 'payments').message).toContain('Name another project in the annotation');
  });
});

describe('a glob', () => {
  it.each([
    ['shop', 'shop', true],
    ['shop', 'shop-eu', false],
    ['*', 'shop', true],
    ['*', '', true],
    ['shop-*', 'shop-', true],
    ['shop-*', 'myshop-eu', false],
    ['*-prod', 'shop-eu-prod', true],
    ['*-prod', 'shop-prod-eu', false],
    ['s?op', 'shop', true],
    ['s?op', 'sop', false],
    ['a*b*c', 'a-b-b-c', true],
    ['a*b*c', 'a-c-b', false],
    ['a.c', 'abc', false],
    ['**', 'x', true],
    ['?', '', false],
  ])('%s matches %s: %s', (glob, text, isMatch) => {
    expect(matchesGlob(glob, text)).toBe(isMatch);
  });

  it('a hostile pattern takes a number of steps that grows with the lengths, not with their powers', () => {
    // A matcher that tries every star again would not end.
    expect(matchesGlob(`${'*a'.repeat(31)}b`, 'a'.repeat(63))).toBe(false);
  });
});
