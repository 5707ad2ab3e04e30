{{/* {events, weight}: annotations of a hook's objects. Helm deletes them after success, and before the next try. */}}
{{- define "beatkeeper.hook" -}}
helm.sh/hook: {{ .events }}
helm.sh/hook-weight: {{ .weight | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end -}}
