{{/*
Objects of the cluster have the namespace in their name, so that two releases of one name don't meet. No namespace has
a dot: `a-b` with `c` is another name than `a` with `b-c`.
*/}}
{{- define "beatkeeper.clusterName" -}}
{{- printf "%s.%s" .Release.Namespace (include "beatkeeper.fullname" .) -}}
{{- end -}}

{{/* What the operator may do where it watches. Secrets only one by one, by name: it never sees a list of them. */}}
{{- define "beatkeeper.operatorRules" -}}
{{- $resources := include "beatkeeper.resources" . | fromJsonArray -}}
- apiGroups: [beatkeeper.dev]
  resources: {{ toJson $resources }}
  verbs: [get, list, watch, update, patch]
- apiGroups: [beatkeeper.dev]
  resources:
    {{- range $resources }}
    - {{ . }}/status
    {{- end }}
  verbs: [get, update, patch]
- apiGroups: [beatkeeper.dev]
  resources:
    {{- range $resources }}
    - {{ . }}/finalizers
    {{- end }}
  verbs: [update]
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, create, update, patch, delete]
- apiGroups: ["", events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end -}}
