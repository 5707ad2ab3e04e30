{{/* What the pods of several roles have in common. */}}

{{/* {root, component, values}: the pod's fields except its containers. */}}
{{- define "beatkeeper.pod" -}}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
enableServiceLinks: false
securityContext: {{- include "beatkeeper.podSecurity" (dict "root" .root "values" .values "id" 1000) | nindent 2 }}
{{- with .values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* {root, component}: spreads replicas over zones and nodes, where possible. */}}
{{- define "beatkeeper.spread" -}}
topologySpreadConstraints:
  {{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "beatkeeper.matchLabels" $ | nindent 8 }}
    matchLabelKeys: [pod-template-hash]
  {{- end }}
{{- end -}}

{{/* {root, component, values}: the chart's own labels, which select the pods, and those of the values. */}}
{{- define "beatkeeper.podLabels" -}}
{{- toYaml (merge (include "beatkeeper.selectorLabels" . | fromYaml) (.values.podLabels | default dict)) -}}
{{- end -}}

{{/* {root, values, id}: the id of user and group, except where the platform gives each namespace ids of its own. */}}
{{- define "beatkeeper.podSecurity" -}}
{{- $security := dict "runAsNonRoot" true "seccompProfile" (dict "type" "RuntimeDefault") -}}
{{- if not (include "beatkeeper.onOpenshift" .root) -}}
{{- $security = merge $security (dict "runAsUser" .id "runAsGroup" .id "fsGroup" .id "fsGroupChangePolicy" "OnRootMismatch") -}}
{{- end -}}
{{- toYaml (mergeOverwrite $security (deepCopy (.values.podSecurityContext | default dict))) -}}
{{- end -}}

{{- define "beatkeeper.onOpenshift" -}}
{{- $isFound := .Capabilities.APIVersions.Has "security.openshift.io/v1" -}}
{{- if or (eq .Values.openshift "always") (and (eq .Values.openshift "auto") $isFound) }}yes{{ end -}}
{{- end -}}

{{/* {values} */}}
{{- define "beatkeeper.containerSecurity" -}}
{{- $security := dict "allowPrivilegeEscalation" false "readOnlyRootFilesystem" true "capabilities" (dict "drop" (list "ALL")) -}}
{{- toYaml (mergeOverwrite $security (deepCopy (.values.securityContext | default dict))) -}}
{{- end -}}

{{/*
/livez decides about a restart, /readyz about traffic. The first probe waits, because each one that fails is a Warning: a
process that starts gets 100 seconds until the restart, and half of that until the first Warning.
*/}}
{{- define "beatkeeper.probes" -}}
startupProbe:
  exec: {command: [node, src/telemetry/wait-until-ready.ts, "50"]}
  periodSeconds: 1
  timeoutSeconds: 60
  failureThreshold: 2
livenessProbe:
  httpGet: {path: /livez, port: health}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: health}
  periodSeconds: 2
  timeoutSeconds: 2
  failureThreshold: 3
{{- end -}}

{{/* {root, user, key}: the bundled database's URL, in which Kubernetes substitutes the password. */}}
{{- define "beatkeeper.bundledDatabaseEnv" -}}
- name: POSTGRES_PASSWORD
  valueFrom:
    secretKeyRef: {name: {{ include "beatkeeper.postgresqlSecret" .root | quote }}, key: {{ .key }}}
- name: DATABASE_URL
  value: postgresql://{{ .user }}:$(POSTGRES_PASSWORD)@{{ include "beatkeeper.fullname" .root }}-postgresql:5432/beatkeeper
{{- end -}}

{{- define "beatkeeper.applicationDatabaseEnv" -}}
{{- if .Values.postgresql.enabled -}}
{{ include "beatkeeper.bundledDatabaseEnv" (dict "root" . "user" "beatkeeper_application" "key" "application-password") }}
{{- else -}}
- name: DATABASE_URL
  valueFrom:
    secretKeyRef: {name: {{ .Values.database.existingSecret | quote }}, key: {{ .Values.database.existingSecretKey | quote }}}
{{- end }}
{{- end -}}

{{/* The database settings of migrate: the URL of the schema's owner, and the role that it gives its rights to. */}}
{{- define "beatkeeper.ownerDatabaseEnv" -}}
{{- $role := .Values.database.applicationRole -}}
{{- if .Values.postgresql.enabled -}}
{{- $role = "beatkeeper_application" -}}
{{ include "beatkeeper.bundledDatabaseEnv" (dict "root" . "user" "beatkeeper" "key" "owner-password") }}
{{- else if .Values.migrations.existingSecret -}}
- name: DATABASE_URL
  valueFrom:
    secretKeyRef: {name: {{ .Values.migrations.existingSecret | quote }}, key: {{ .Values.migrations.existingSecretKey | quote }}}
{{- else -}}
{{ include "beatkeeper.applicationDatabaseEnv" . }}
{{- end }}
{{- with $role }}
- {name: DATABASE_APPLICATION_ROLE, value: {{ . | quote }}}
{{- end }}
{{- include "beatkeeper.jurisdictionsEnv" (dict "root" . "isOwner" true) }}
{{ include "beatkeeper.databaseEngineEnv" . }}
{{- end -}}

{{/* {root, isOwner}: the databases of jurisdictions; those of migrate by the roles that own their schema. */}}
{{- define "beatkeeper.jurisdictionsEnv" -}}
{{- range $jurisdiction, $database := .root.Values.jurisdictions }}
{{- $prefix := printf "JURISDICTION_%s_DATABASE" ($jurisdiction | upper | replace "-" "_") }}
{{- $url := $database }}
{{- if $.isOwner }}{{ $url = $database.migrations | default $database }}{{ end }}
- name: {{ $prefix }}_URL
  valueFrom:
    secretKeyRef: {name: {{ $url.existingSecret | quote }}, key: {{ $url.existingSecretKey | default "url" | quote }}}
{{- if and $.isOwner $database.applicationRole }}
- {name: {{ $prefix }}_APPLICATION_ROLE, value: {{ $database.applicationRole | quote }}}
{{- end }}
{{- end }}
{{- end -}}

{{- define "beatkeeper.databaseEngineEnv" -}}
- {name: BEATKEEPER_DATABASE_ENGINE, value: {{ .Values.database.engine | quote }}}
{{- end -}}

{{/* The database settings of api and sweeper. */}}
{{- define "beatkeeper.storeEnv" -}}
{{ include "beatkeeper.applicationDatabaseEnv" . }}
{{- include "beatkeeper.jurisdictionsEnv" (dict "root" .) }}
{{ include "beatkeeper.databaseEngineEnv" . }}
- name: BEATKEEPER_DATABASE_POOL
  value: {{ .Values.database.poolSize | quote }}
- name: BEATKEEPER_ENCRYPTION_KEYS
  valueFrom:
    secretKeyRef: {name: {{ include "beatkeeper.encryptionSecret" . | quote }}, key: keys}
{{- with .Values.relay.existingSecret }}
- name: RELAY_TOKEN
  valueFrom:
    secretKeyRef: {name: {{ . | quote }}, key: token}
{{- end }}
{{- end -}}

{{- define "beatkeeper.databaseMounts" -}}
- {name: tmp, mountPath: /tmp}
{{- if .Values.database.caSecret }}
- {name: database-ca, mountPath: /etc/beatkeeper/database, readOnly: true}
{{- end }}
{{- end -}}

{{- define "beatkeeper.databaseVolumes" -}}
- name: tmp
  emptyDir: {}
{{- with .Values.database.caSecret }}
- name: database-ca
  secret: {secretName: {{ . | quote }}, items: [{key: ca.crt, path: ca.crt}]}
{{- end }}
{{- end -}}

{{/* Of a pod that calls api: its authority, without the key. A Secret of a well-known authority has none. */}}
{{- define "beatkeeper.apiCaEnv" -}}
{{- if .Values.api.tls.existingSecret -}}
- {name: BEATKEEPER_API_CA_FILE, value: /etc/beatkeeper/api/ca.crt}
{{- end -}}
{{- end -}}

{{- define "beatkeeper.apiCaMount" -}}
{{- if .Values.api.tls.existingSecret -}}
- {name: api-ca, mountPath: /etc/beatkeeper/api, readOnly: true}
{{- end -}}
{{- end -}}

{{- define "beatkeeper.apiCaVolume" -}}
{{- with .Values.api.tls.existingSecret -}}
- name: api-ca
  secret: {secretName: {{ . | quote }}, items: [{key: ca.crt, path: ca.crt}], optional: true}
{{- end -}}
{{- end -}}

{{/* {root, values}: waits for the database and applies the migrations. Many pods may run it at once. */}}
{{- define "beatkeeper.migrateContainer" -}}
- name: migrate
  image: {{ include "beatkeeper.image" .root }}
  imagePullPolicy: {{ .root.Values.image.pullPolicy }}
  args: [migrate]
  envFrom: [{configMapRef: {name: {{ include "beatkeeper.fullname" .root }}-config}}]
  env: {{- include "beatkeeper.ownerDatabaseEnv" .root | nindent 4 }}
  securityContext: {{- include "beatkeeper.containerSecurity" . | nindent 4 }}
  resources: {{- include "beatkeeper.taskResources" . | nindent 4 }}
  volumeMounts: {{- include "beatkeeper.databaseMounts" .root | nindent 4 }}
{{- end -}}

{{/* For init containers, hooks and the test. */}}
{{- define "beatkeeper.taskResources" -}}
requests: {cpu: 50m, memory: 128Mi}
limits: {memory: 512Mi}
{{- end -}}

{{/* {root, component, command, account, env, seconds, database}: the spec of a hook's Job, which retries for up to five minutes
by default. `database`: whether it connects to it. A Secret that is not there would keep every other Job from its start. */}}
{{- define "beatkeeper.jobSpec" -}}
backoffLimit: 3
activeDeadlineSeconds: {{ .seconds | default 300 }}
ttlSecondsAfterFinished: 3600
{{- $role := dict "root" .root "component" .component "values" .root.Values.operator }}
template:
  metadata:
    labels: {{- include "beatkeeper.podLabels" $role | nindent 6 }}
    {{- with $role.values.podAnnotations }}
    annotations: {{- toYaml . | nindent 6 }}
    {{- end }}
  spec:
    restartPolicy: Never
    {{- if .account }}
    serviceAccountName: {{ .account }}
    {{- end }}
    automountServiceAccountToken: {{ not (empty .account) }}
    {{- include "beatkeeper.pod" $role | nindent 4 }}
    containers:
      - name: {{ .component }}
        image: {{ include "beatkeeper.image" .root }}
        imagePullPolicy: {{ .root.Values.image.pullPolicy }}
        args: [{{ .command }}]
        env:
          - {name: BEATKEEPER_LOG_LEVEL, value: {{ .root.Values.logLevel }}}
          {{- .env | nindent 10 }}
        securityContext: {{- include "beatkeeper.containerSecurity" $role | nindent 10 }}
        resources: {{- include "beatkeeper.taskResources" .root | nindent 10 }}
        terminationMessagePolicy: FallbackToLogsOnError
        {{- if .database }}
        volumeMounts: {{- include "beatkeeper.databaseMounts" .root | nindent 10 }}
    volumes: {{- include "beatkeeper.databaseVolumes" .root | nindent 6 }}
        {{- else }}
        volumeMounts: [{name: tmp, mountPath: /tmp}]
    volumes: [{name: tmp, emptyDir: {}}]
        {{- end }}
{{- end -}}
