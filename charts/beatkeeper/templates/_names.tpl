{{/* Names, labels and addresses. */}}

{{- define "beatkeeper.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* Cut to 40, so that the longest suffix fits into a name of 63. */}}
{{- define "beatkeeper.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "beatkeeper.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "beatkeeper.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
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
app.kubernetes.io/name: {{ include "beatkeeper.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
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
