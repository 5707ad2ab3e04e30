#!/bin/sh
# SECRET=sigcb_v1_… ./verify.sh <webhook-id> <webhook-timestamp> <webhook-signature> < body
# Ends with 0 when the signature is right and not older than five minutes.
case $2 in '' | *[!0-9]*) exit 1 ;; esac
age=$(($(date +%s) - $2))
[ "$age" -le 300 ] && [ "$age" -ge -300 ] || exit 1
key=$(printf '%s=' "${SECRET#sigcb_v1_}" | tr '_-' '/+' | openssl base64 -d -A | od -An -v -tx1 | tr -d ' \n')
expected=v1,$({ printf '%s.%s.' "$1" "$2"; cat; } |
  openssl dgst -sha256 -mac HMAC -macopt "hexkey:$key" -binary | openssl base64 -A)
# While a secret is rotated there are two signatures: one that fits is enough.
for signature in $3; do
  [ "$signature" = "$expected" ] && exit 0
done
exit 1
