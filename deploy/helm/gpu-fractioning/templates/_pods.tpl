{{/* What the controller's pods and those of the hook Jobs have in common. */}}

{{- define "gpu-fractioning.podSecurity" -}}
runAsNonRoot: true
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "gpu-fractioning.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* On OpenShift: stay under the SCC that everybody has, whatever another product's SCC claims for itself. */}}
{{- define "gpu-fractioning.podAnnotations" -}}
{{- if include "gpu-fractioning.isOpenShift" . -}}
annotations:
  openshift.io/required-scc: restricted-v2
{{- end -}}
{{- end -}}

{{- define "gpu-fractioning.podPlacement" -}}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/*
How long the config-remover waits. An mpsd may take its gracefulStopDelay to end, and all the rest takes less than a
minute: what is not done then is stuck.
*/}}
{{- define "gpu-fractioning.removalSeconds" -}}
{{- $start := toDate "2006-01-02" "2000-01-01" -}}
{{- /* Helm has no other word for reading a duration. */ -}}
{{- $end := dateModify (.Values.mpsDaemon.gracefulStopDelay | default "60s") $start -}}
{{- $delay := sub (unixEpoch $end | int64) (unixEpoch $start | int64) -}}
{{- .Values.configRemover.timeoutSeconds | default (add $delay 60) -}}
{{- end -}}

{{/*
A hook's annotations: events and weight. What succeeded is deleted; what failed stays, to be looked into, until the
next run.
*/}}
{{- define "gpu-fractioning.hook" -}}
helm.sh/hook: {{ .events }}
helm.sh/hook-weight: {{ .weight | quote }}
helm.sh/hook-delete-policy: hook-succeeded,before-hook-creation
{{- end -}}

{{/* One hook Job that runs the controller's image. It has no time-to-live: what waits for it would miss it. */}}
{{- define "gpu-fractioning.hookJob" -}}
{{- $root := .root -}}
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "gpu-fractioning.labels" $root | nindent 4 }}
  annotations:
    {{- include "gpu-fractioning.hook" (dict "events" .events "weight" "2") | nindent 4 }}
spec:
  backoffLimit: {{ .options.backoffLimit }}
  {{- with .deadlineSeconds }}
  activeDeadlineSeconds: {{ . }}
  {{- end }}
  template:
    metadata:
      labels:
        {{- include "gpu-fractioning.selectorLabels" $root | nindent 8 }}
        app.kubernetes.io/component: {{ .component }}
      {{- with include "gpu-fractioning.podAnnotations" $root }}
      {{- . | nindent 6 }}
      {{- end }}
    spec:
      restartPolicy: Never
      serviceAccountName: {{ .name }}
      automountServiceAccountToken: true
      {{- with $root.Values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext:
        {{- include "gpu-fractioning.podSecurity" $root | nindent 8 }}
      containers:
        - name: {{ .component }}
          image: {{ include "gpu-fractioning.operatorImage" $root | quote }}
          imagePullPolicy: {{ $root.Values.images.operator.pullPolicy }}
          args:
            {{- toYaml .args | nindent 12 }}
          env:
            - name: FIPS_MODE
              value: {{ include "gpu-fractioning.fipsMode" $root | quote }}
          resources:
            {{- toYaml .options.resources | nindent 12 }}
          securityContext:
            {{- include "gpu-fractioning.containerSecurity" $root | nindent 12 }}
      {{- with include "gpu-fractioning.podPlacement" $root | trim }}
      {{- . | nindent 6 }}
      {{- end }}
{{- end -}}

{{/*
ServiceAccount, ClusterRole and binding of one hook Job: hooks of the same events, made before it. Tools that run
install and upgrade hooks alike, or render without a cluster, find everything the Job needs.
*/}}
{{- define "gpu-fractioning.hookRights" -}}
{{- $root := .root -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "gpu-fractioning.labels" $root | nindent 4 }}
  annotations:
    {{- include "gpu-fractioning.hook" (dict "events" .events "weight" "-1") | nindent 4 }}
automountServiceAccountToken: false
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ .name }}
  labels:
    {{- include "gpu-fractioning.labels" $root | nindent 4 }}
  annotations:
    {{- include "gpu-fractioning.hook" (dict "events" .events "weight" "-1") | nindent 4 }}
rules:
  {{- toYaml .rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ .name }}
  labels:
    {{- include "gpu-fractioning.labels" $root | nindent 4 }}
  annotations:
    {{- include "gpu-fractioning.hook" (dict "events" .events "weight" "-1") | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ .name }}
subjects:
  - kind: ServiceAccount
    name: {{ .name }}
    namespace: {{ $root.Release.Namespace }}
{{- end -}}
