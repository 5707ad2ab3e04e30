{{/* The Secrets that the chart makes itself, as JSON for fromJson: the variable of the command `secrets` -> the Secret's name. */}}
{{- define "beatkeeper.ownSecrets" -}}
{{- $own := dict -}}
{{- if not .Values.encryption.existingSecret -}}
{{- $_ := set $own "BEATKEEPER_ENCRYPTION_SECRET" (include "beatkeeper.encryptionSecret" .) -}}
{{- end -}}
{{- if and .Values.postgresql.enabled (not .Values.postgresql.existingSecret) -}}
{{- $_ := set $own "BEATKEEPER_DATABASE_SECRET" (include "beatkeeper.postgresqlSecret" .) -}}
{{- end -}}
{{- toJson $own -}}
{{- end -}}

{{/* Tries until it succeeds, however long the API server is away: the pods of the roles wait for the Secrets meanwhile. */}}
{{- define "beatkeeper.secretsJobSpec" -}}
{{- $role := dict "root" . "component" "secrets" "values" .Values.operator -}}
backoffLimit: 1000
template:
  metadata:
    labels: {{- include "beatkeeper.podLabels" $role | nindent 6 }}
    {{- with $role.values.podAnnotations }}
    annotations: {{- toYaml . | nindent 6 }}
    {{- end }}
  spec:
    restartPolicy: OnFailure
    serviceAccountName: {{ include "beatkeeper.fullname" . }}-secrets
    automountServiceAccountToken: true
    {{- include "beatkeeper.pod" $role | nindent 4 }}
    containers:
      - name: secrets
        image: {{ include "beatkeeper.image" . }}
        imagePullPolicy: {{ .Values.image.pullPolicy }}
        args: [secrets]
        env:
          - {name: BEATKEEPER_LOG_LEVEL, value: {{ .Values.logLevel }}}
          {{- range $variable, $name := include "beatkeeper.ownSecrets" . | fromJson }}
          - {name: {{ $variable }}, value: {{ $name | quote }}}
          {{- end }}
          - name: POD_NAMESPACE
            valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
        securityContext: {{- include "beatkeeper.containerSecurity" $role | nindent 10 }}
        resources: {{- include "beatkeeper.taskResources" . | nindent 10 }}
        terminationMessagePolicy: FallbackToLogsOnError
        volumeMounts: [{name: tmp, mountPath: /tmp}]
    volumes: [{name: tmp, emptyDir: {}}]
{{- end -}}
