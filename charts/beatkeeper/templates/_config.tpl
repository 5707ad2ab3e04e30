{{/* The environment of api, sweeper and migrate without its secrets. A checksum of it is an annotation of their pods. Only migrate reads the organization. */}}
{{- define "beatkeeper.config" -}}
BEATKEEPER_ORGANIZATION: {{ .Values.organization | quote }}
BEATKEEPER_PLAN: {{ .Values.plan }}
BILLING_SOURCE: {{ .Values.billing.source }}
{{- with .Values.plans }}
BEATKEEPER_PLANS: {{ toJson . | quote }}
{{- end }}
BEATKEEPER_LOG_LEVEL: {{ .Values.logLevel }}
BEATKEEPER_PUBLIC_URL: {{ include "beatkeeper.publicUrl" . | quote }}
BEATKEEPER_ALLOWED_PRIVATE_DESTINATIONS: {{ join "," .Values.callbacks.allowedPrivateDestinations | quote }}
{{- with .Values.relay.url }}
RELAY_URL: {{ . | quote }}
RELAY_NOTIFIERS: {{ join "," $.Values.relay.notifiers | quote }}
{{- end }}
BEATKEEPER_ISSUERS: {{ include "beatkeeper.issuers" . | quote }}
BEATKEEPER_MAX_CONNECTIONS: {{ .Values.api.maxConnections | int | quote }}
{{- with .Values.api.dashboardOrigin }}
BEATKEEPER_DASHBOARD_ORIGIN: {{ . | quote }}
{{- end }}
{{- end -}}

{{/*
The cluster's own issuer, whose service accounts stand for roles, and the issuers of the values. Without a name api reads
it from its own token: each cluster has another one.
*/}}
{{- define "beatkeeper.issuers" -}}
{{- $fullname := include "beatkeeper.fullname" . -}}
{{- $roles := dict -}}
{{- range list "owner" "member" "viewer" "operator" -}}
{{- $_ := set $roles (printf "system:serviceaccount:%s:%s-%s" $.Release.Namespace $fullname .) . -}}
{{- end -}}
{{- $_ := set $roles (printf "system:serviceaccount:%s:%s-test" .Release.Namespace $fullname) "viewer" -}}
{{- $cluster := dict
  "audience" "beatkeeper"
  "jwksUri" "https://kubernetes.default.svc/openid/v1/jwks"
  "caFile" "/var/run/secrets/beatkeeper/cluster/ca.crt"
  "tokenFile" "/var/run/secrets/beatkeeper/cluster/token"
  "organization" .Values.organization
  "roles" $roles -}}
{{- with .Values.auth.clusterIssuer -}}
{{- $_ := set $cluster "issuer" . -}}
{{- end -}}
{{- if .Values.auth.tokenReview.enabled -}}
{{- $_ := set $cluster "tokenReviewUri" "https://kubernetes.default.svc/apis/authentication.k8s.io/v1/tokenreviews" -}}
{{- end -}}
{{- $issuers := list $cluster -}}
{{- range .Values.auth.issuers -}}
{{- $issuers = append $issuers (merge (dict) . (dict "organization" $.Values.organization)) -}}
{{- end -}}
{{- toJson $issuers -}}
{{- end -}}
