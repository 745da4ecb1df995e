{{/* "true" where the cluster is OpenShift, or is to be taken for it; otherwise nothing. */}}
{{- define "gpu-fractioning.isOpenShift" -}}
{{- $asked := toString .Values.openshift.enabled -}}
{{- $found := and (eq $asked "auto") (.Capabilities.APIVersions.Has "security.openshift.io/v1") -}}
{{- if or (eq $asked "true") $found -}}true{{- end -}}
{{- end -}}

{{/* The SecurityContextConstraints that daemon pods ask for; nothing where none is known by name. */}}
{{- define "gpu-fractioning.daemonScc" -}}
{{- $scc := .Values.openshift.securityContextConstraints -}}
{{- if include "gpu-fractioning.isOpenShift" . -}}
{{- $own := include "gpu-fractioning.suffixed" (dict "root" . "suffix" "daemons") -}}
{{- $scc.name | default (ternary $own "" $scc.create) -}}
{{- end -}}
{{- end -}}

{{/* The CRI socket to write into the GpuFractioningConfig; empty leaves it to fractiond, which knows containerd's. */}}
{{- define "gpu-fractioning.criSocketPath" -}}
{{- $usual := ternary "/run/crio/crio.sock" "" (eq (include "gpu-fractioning.isOpenShift" .) "true") -}}
{{- .Values.fractioningAgent.criSocketPath | default $usual -}}
{{- end -}}
