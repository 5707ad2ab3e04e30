{{/* Names, labels and addresses. */}}

{{- define "beatkeeper.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/*
At most 40 characters, so that the longest suffix fits into a name of 63. A longer one is cut, with a hash of the whole,
so that two long releases don't meet. Services have no dots in their names.
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

{{/* Labels of an object. Not for pod templates and claims: a chart's new version alone must restart no database. */}}
{{- define "beatkeeper.labels" -}}
{{ include "beatkeeper.selectorLabels" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name (.root.Chart.Version | replace "+" "_") }}
{{- end -}}

{{/* {root, component}: what selects a role's pods, and what pods wear. */}}
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
http://{{ include "beatkeeper.fullname" . }}-api.{{ .Release.Namespace }}.svc{{ if ne (int .Values.api.service.port) 80 }}:{{ .Values.api.service.port }}{{ end }}
{{- end -}}

{{- define "beatkeeper.publicUrl" -}}
{{- .Values.publicUrl | trimSuffix "/" | default (include "beatkeeper.apiUrl" .) -}}
{{- end -}}

{{/* The custom resources, as JSON for fromJsonArray. A test holds this against crds/. */}}
{{- define "beatkeeper.resources" -}}
["monitors", "callbacks"]
{{- end -}}

{{- define "beatkeeper.encryptionSecret" -}}
{{- .Values.encryption.existingSecret | default (printf "%s-encryption" (include "beatkeeper.fullname" .)) -}}
{{- end -}}

{{- define "beatkeeper.postgresqlSecret" -}}
{{- .Values.postgresql.existingSecret | default (printf "%s-postgresql" (include "beatkeeper.fullname" .)) -}}
{{- end -}}

{{/* Values that each are fine and do not go together. */}}
{{- define "beatkeeper.check" -}}
{{- if not (regexMatch "^[a-z]" (include "beatkeeper.fullname" .)) -}}
{{- fail "The name of a Service begins with a letter, and the release's name does not: set fullnameOverride" -}}
{{- end -}}
{{- range $key, $_ := .Values.commonLabels -}}
{{- if or (hasPrefix "app.kubernetes.io/" $key) (hasPrefix "helm.sh/" $key) -}}
{{- fail (printf "commonLabels.%s: the chart sets the labels of app.kubernetes.io and helm.sh itself, leave it out" $key) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.postgresql.enabled .Values.database.existingSecret -}}
{{- fail "database.existingSecret names an external database, and postgresql.enabled brings one: set postgresql.enabled=false, or leave database.existingSecret out" -}}
{{- end -}}
{{- if not (or .Values.postgresql.enabled .Values.database.existingSecret) -}}
{{- fail "There is no database: set database.existingSecret to a Secret with its address, or postgresql.enabled=true" -}}
{{- end -}}
{{- if and .Values.postgresql.enabled (eq .Values.migrations.mode "job") -}}
{{- fail "migrations.mode=job runs before the bundled Postgres is there: use migrations.mode=init, or an external database" -}}
{{- end -}}
{{- if and .Values.api.ingress.enabled (not .Values.api.ingress.host) -}}
{{- fail "api.ingress.enabled needs api.ingress.host" -}}
{{- end -}}
{{- if gt (int .Values.api.autoscaling.minReplicas) (int .Values.api.autoscaling.maxReplicas) -}}
{{- fail "api.autoscaling.minReplicas is greater than api.autoscaling.maxReplicas" -}}
{{- end -}}
{{- end -}}
