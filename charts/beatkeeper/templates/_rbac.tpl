{{/*
The names of cluster-scoped objects contain the namespace, so that two releases of one name do not collide. A namespace
has no dot: the namespace `a-b` with the release `c` gives another name than `a` with `b-c`.
*/}}
{{- define "beatkeeper.clusterName" -}}
{{- printf "%s.%s" .Release.Namespace (include "beatkeeper.fullname" .) -}}
{{- end -}}

{{/* The operator's permissions in the namespaces that it watches. It reads Secrets only by name, and never lists them. */}}
{{- define "beatkeeper.operatorRules" -}}
{{- $resources := include "beatkeeper.resources" . | fromJsonArray -}}
- apiGroups: [beatkeeper.dev]
  resources: {{ toJson $resources }}
  verbs: [get, list, watch, patch]
- apiGroups: [beatkeeper.dev]
  resources:
    {{- range $resources }}
    - {{ . }}/status
    {{- end }}
  verbs: [patch]
- apiGroups: [beatkeeper.dev]
  resources:
    {{- range without $resources "rules" }}
    - {{ . }}/finalizers # where the API server wants it for an owner that blocks its deletion (OpenShift)
    {{- end }}
  verbs: [update]
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, create, update, delete]
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- if .Values.operator.workloads.enabled }}
- apiGroups: [batch]
  resources: [cronjobs, jobs]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [pods] # of Jobs: when their containers ran, and why they failed
  verbs: [list, watch]
- apiGroups: [""]
  resources: [resourcequotas] # one that is exhausted is one alert, and not one for each Job without pods
  verbs: [list, watch]
- apiGroups: [apps]
  resources: [deployments, statefulsets, daemonsets] # their labels, where a Monitor refers to one
  verbs: [get]
- apiGroups: [beatkeeper.dev]
  resources: [monitors] # of annotated CronJobs
  verbs: [create, delete]
{{- if .Values.operator.logs.enabled }}
- apiGroups: [""]
  resources: [pods/log]
  verbs: [get]
{{- end }}
{{- end }}
{{- end -}}

{{/* Whether the release may have policies, which are objects of the whole cluster. */}}
{{- define "beatkeeper.hasPolicies" -}}
{{- $policy := .Values.operator.secretPolicy -}}
{{- if or (eq $policy "always") (and (eq $policy "auto") (not .Values.operator.watchNamespaces)) }}yes{{ end -}}
{{- end -}}
