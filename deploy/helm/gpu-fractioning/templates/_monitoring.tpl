{{/* "true" where monitors are asked for and the cluster knows them; otherwise nothing. */}}
{{- define "gpu-fractioning.hasMonitors" -}}
{{- $asked := and .Values.metrics.enabled .Values.prometheus.enabled -}}
{{- if and $asked (.Capabilities.APIVersions.Has "monitoring.coreos.com/v1") -}}true{{- end -}}
{{- end -}}

{{- define "gpu-fractioning.monitorMetadata" -}}
name: {{ .name }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "gpu-fractioning.labels" .root | nindent 2 }}
  {{- with .root.Values.prometheus.additionalLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{- define "gpu-fractioning.scrape" -}}
interval: {{ .Values.prometheus.interval }}
scrapeTimeout: {{ .Values.prometheus.scrapeTimeout }}
{{- end -}}

{{/* A duration of those that the schema takes, such as 90s. */}}
{{- define "gpu-fractioning.milliseconds" -}}
{{- $units := dict "ms" 1 "s" 1000 "m" 60000 "h" 3600000 -}}
{{- mul (regexFind "^[0-9]+" . | int64) (get $units (regexFind "[a-z]+$" .)) -}}
{{- end -}}

{{/* metricsd adds a missing slash in front by itself. */}}
{{- define "gpu-fractioning.metricsdPath" -}}
/{{ .Values.metricsAgent.path | default "/metrics" | trimPrefix "/" }}
{{- end -}}
