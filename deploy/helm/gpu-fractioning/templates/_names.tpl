{{/* Names and labels. They are those of earlier releases, so that an upgrade finds its objects. */}}

{{- define "gpu-fractioning.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "gpu-fractioning.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* The full name with a suffix that is never cut off: two objects of one kind must not end up with one name. */}}
{{- define "gpu-fractioning.suffixed" -}}
{{- $room := sub 62 (len .suffix) | int -}}
{{- printf "%s-%s" (include "gpu-fractioning.fullname" .root | trunc $room | trimSuffix "-") .suffix -}}
{{- end -}}

{{- define "gpu-fractioning.crdUpgraderName" -}}
{{- include "gpu-fractioning.suffixed" (dict "root" . "suffix" "crd-upgrader") -}}
{{- end -}}

{{- define "gpu-fractioning.configRemoverName" -}}
{{- include "gpu-fractioning.suffixed" (dict "root" . "suffix" "config-remover") -}}
{{- end -}}

{{- define "gpu-fractioning.serviceAccountName" -}}
{{- include "gpu-fractioning.accountName" (dict "account" .Values.serviceAccount "own" (include "gpu-fractioning.fullname" .)) -}}
{{- end -}}

{{- define "gpu-fractioning.daemonServiceAccountName" -}}
{{- $own := include "gpu-fractioning.suffixed" (dict "root" . "suffix" "daemon") -}}
{{- include "gpu-fractioning.accountName" (dict "account" .Values.daemonServiceAccount "own" $own) -}}
{{- end -}}

{{- define "gpu-fractioning.fractiondServiceAccountName" -}}
{{- $own := include "gpu-fractioning.suffixed" (dict "root" . "suffix" "fractiond") -}}
{{- include "gpu-fractioning.accountName" (dict "account" .Values.fractiondServiceAccount "own" $own) -}}
{{- end -}}

{{- define "gpu-fractioning.accountName" -}}
{{- .account.name | default (ternary .own "default" .account.create) -}}
{{- end -}}

{{- define "gpu-fractioning.selectorLabels" -}}
app.kubernetes.io/name: {{ include "gpu-fractioning.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "gpu-fractioning.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "gpu-fractioning.selectorLabels" . }}
{{- with .Chart.AppVersion }}
app.kubernetes.io/version: {{ . | quote }}
{{- end }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{/* The controller's pods, without those of the hook Jobs, which share the selector labels. */}}
{{- define "gpu-fractioning.controllerLabels" -}}
{{ include "gpu-fractioning.selectorLabels" . }}
app.kubernetes.io/component: controller
{{- end -}}

{{/* The pods of one daemon, as the controller labels them. */}}
{{- define "gpu-fractioning.daemonLabels" -}}
app.kubernetes.io/managed-by: gpu-fractioning
app.kubernetes.io/component: {{ . }}
{{- end -}}
