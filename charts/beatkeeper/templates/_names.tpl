{{/* Names, labels and addresses. */}}

{{- define "beatkeeper.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/*
At most 40 characters, so that the longest suffix fits into a name of 63. A longer name is cut and gets a hash of the
whole, so that two long releases have different names. The name of a Service has no dots.
*/}}
{{- define "beatkeeper.fullname" -}}
{{- $name := .Values.fullnameOverride -}}
{{- if not $name -}}
{{- $own := contains (include "beatkeeper.name" .) .Release.Name -}}
{{- $name = $own | ternary .Release.Name (printf "%s-%s" .Release.Name (include "beatkeeper.name" .)) -}}
{{- end -}}
{{- if gt (len $name) 40 -}}
{{- $name = printf "%s-%s" ($name | trunc 31 | trimSuffix "-" | trimSuffix ".") ($name | sha256sum | trunc 8) -}}
{{- end -}}
{{- $name | replace "." "-" -}}
{{- end -}}

{{/* Labels of an object. Not for pod templates and claims: a new chart version alone must not restart the database. */}}
{{- define "beatkeeper.labels" -}}
{{ include "beatkeeper.selectorLabels" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name (.root.Chart.Version | replace "+" "_") }}
{{- end -}}

{{/* {root, component}: the labels of a role's pods. matchLabels, without commonLabels, selects them. */}}
{{- define "beatkeeper.selectorLabels" -}}
{{- with .root.Values.commonLabels }}{{ toYaml . }}
{{ end -}}
{{ include "beatkeeper.matchLabels" . }}
{{- end -}}

{{- define "beatkeeper.matchLabels" -}}
app.kubernetes.io/name: {{ include "beatkeeper.name" .root | quote }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end -}}

{{- define "beatkeeper.image" -}}
{{- $tag := default .Chart.AppVersion .Values.image.tag -}}
{{- printf "%s%s%s" .Values.image.repository (ternary "@" ":" (hasPrefix "sha256:" $tag)) $tag -}}
{{- end -}}

{{- define "beatkeeper.apiUrl" -}}
{{- $scheme := include "beatkeeper.apiScheme" . -}}
{{- $port := include "beatkeeper.apiPort" . -}}
{{ $scheme }}://{{ include "beatkeeper.apiHost" . }}{{ if ne $port (ternary "443" "80" (eq $scheme "https")) }}:{{ $port }}{{ end }}
{{- end -}}

{{- define "beatkeeper.apiHost" -}}
{{- include "beatkeeper.fullname" . }}-api.{{ .Release.Namespace }}.svc
{{- end -}}

{{- define "beatkeeper.apiScheme" -}}
{{- ternary "https" "http" (not (empty .Values.api.tls.existingSecret)) -}}
{{- end -}}

{{- define "beatkeeper.apiPort" -}}
{{- .Values.api.service.port | default (ternary 443 80 (eq (include "beatkeeper.apiScheme" .) "https")) | int -}}
{{- end -}}

{{- define "beatkeeper.publicUrl" -}}
{{- .Values.publicUrl | trimSuffix "/" | default (include "beatkeeper.apiUrl" .) -}}
{{- end -}}

{{/* The custom resources, as JSON for fromJsonArray. A test compares them with crds/. */}}
{{- define "beatkeeper.resources" -}}
["monitors", "callbacks", "rules"]
{{- end -}}

{{- define "beatkeeper.encryptionSecret" -}}
{{- .Values.encryption.existingSecret | default (printf "%s-encryption" (include "beatkeeper.fullname" .)) -}}
{{- end -}}

{{- define "beatkeeper.postgresqlSecret" -}}
{{- .Values.postgresql.existingSecret | default (printf "%s-postgresql" (include "beatkeeper.fullname" .)) -}}
{{- end -}}

{{/* Refuses combinations of values that are valid one by one. */}}
{{- define "beatkeeper.check" -}}
{{- if not (regexMatch "^[a-z]" (include "beatkeeper.fullname" .)) -}}
{{- fail "The release's name does not begin with a letter, as the name of a Service must: set fullnameOverride" -}}
{{- end -}}
{{- $labels := dict "commonLabels" .Values.commonLabels -}}
{{- range list "api" "sweeper" "operator" "postgresql" -}}
{{- $_ := set $labels (printf "%s.podLabels" .) (index $.Values .).podLabels -}}
{{- end -}}
{{- range $path, $some := $labels -}}
{{- range $key, $_ := $some -}}
{{- if or (hasPrefix "app.kubernetes.io/" $key) (hasPrefix "helm.sh/" $key) -}}
{{- fail (printf "%s.%s: the chart sets the labels of app.kubernetes.io and helm.sh itself: remove it" $path $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .Values.postgresql.enabled .Values.database.existingSecret -}}
{{- fail "database.existingSecret names an external database, but postgresql.enabled installs one: set postgresql.enabled=false, or remove database.existingSecret" -}}
{{- end -}}
{{- if not (or .Values.postgresql.enabled .Values.database.existingSecret) -}}
{{- fail "There is no database: set database.existingSecret to a Secret with its URL, or postgresql.enabled=true" -}}
{{- end -}}
{{- if and .Values.postgresql.enabled (eq .Values.migrations.mode "job") -}}
{{- fail "migrations.mode=job runs before the bundled Postgres exists: use migrations.mode=init, or an external database" -}}
{{- end -}}
{{- if and .Values.postgresql.enabled (or .Values.migrations.existingSecret .Values.database.applicationRole) -}}
{{- fail "migrations.existingSecret and database.applicationRole are for an external database: the bundled Postgres has its own two roles" -}}
{{- end -}}
{{- if and .Values.postgresql.enabled (ne .Values.database.engine "postgres") -}}
{{- fail "database.engine is not postgres, but postgresql.enabled installs a Postgres: set postgresql.enabled=false and database.existingSecret" -}}
{{- end -}}
{{- if and .Values.database.applicationRole (not .Values.migrations.existingSecret) -}}
{{- fail "database.applicationRole needs migrations.existingSecret: the URL of the role that owns the schema" -}}
{{- end -}}
{{- range $jurisdiction, $database := .Values.jurisdictions -}}
{{- if ne $.Values.database.engine "postgres" -}}
{{- fail (printf "jurisdictions.%s has a database of its own, but database.engine is %s: remove it" $jurisdiction $.Values.database.engine) -}}
{{- end -}}
{{- if and $database.applicationRole (not $database.migrations) -}}
{{- fail (printf "jurisdictions.%s.applicationRole needs jurisdictions.%s.migrations.existingSecret: the URL of the role that owns the schema" $jurisdiction $jurisdiction) -}}
{{- end -}}
{{- end -}}
{{- if and (eq .Values.billing.source "stripe") (not .Values.billing.stripe.existingSecret) -}}
{{- fail "billing.source=stripe needs billing.stripe.existingSecret: a Secret with the signing secret of the endpoint at Stripe" -}}
{{- end -}}
{{- if and .Values.relay.existingSecret (not .Values.relay.url) -}}
{{- fail "relay.existingSecret is the token of a relay, but there is none: set relay.url, or remove relay.existingSecret" -}}
{{- end -}}
{{- if and .Values.api.ingress.enabled (not .Values.api.ingress.host) -}}
{{- fail "api.ingress.enabled needs api.ingress.host" -}}
{{- end -}}
{{- with .Values.networkPolicy -}}
{{- if and .egress.enabled (not .enabled) -}}
{{- fail "networkPolicy.egress.enabled needs networkPolicy.enabled" -}}
{{- end -}}
{{- if and .egress.enabled (not .egress.apiServer) -}}
{{- fail "networkPolicy.egress.enabled needs networkPolicy.egress.apiServer: the addresses that kubectl get endpointslices --namespace default shows for kubernetes, as CIDRs" -}}
{{- end -}}
{{- if and .egress.enabled (not $.Values.postgresql.enabled) (not .egress.database) -}}
{{- fail "networkPolicy.egress.enabled needs networkPolicy.egress.database: the addresses of your database, as CIDRs" -}}
{{- end -}}
{{- if and .egress.enabled $.Values.jurisdictions (not .egress.database) -}}
{{- fail "networkPolicy.egress.enabled needs networkPolicy.egress.database: the addresses of the databases of jurisdictions, as CIDRs" -}}
{{- end -}}
{{- end -}}
{{- if gt (int .Values.api.autoscaling.minReplicas) (int .Values.api.autoscaling.maxReplicas) -}}
{{- fail "api.autoscaling.minReplicas is greater than api.autoscaling.maxReplicas" -}}
{{- end -}}
{{- end -}}
