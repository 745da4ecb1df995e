{{/* Images and FIPS. */}}

{{- define "gpu-fractioning.fipsMode" -}}
{{- $mode := (.Values.global).fipsMode | default "off" -}}
{{- if not (and (kindIs "string" $mode) (has $mode (list "off" "on" "only"))) -}}
{{- $hint := ternary "" " without quotes: YAML reads that as a boolean" (kindIs "string" $mode) -}}
{{- fail (printf "global.fipsMode must be \"off\", \"on\" or \"only\", got %q%s" (toString $mode) $hint) -}}
{{- end -}}
{{- $mode -}}
{{- end -}}

{{- define "gpu-fractioning.imageTag" -}}
{{- $suffix := ternary "" "-fips" (eq (include "gpu-fractioning.fipsMode" .root) "off") -}}
{{- .image.tag | default .root.Chart.AppVersion }}{{ $suffix -}}
{{- end -}}

{{- define "gpu-fractioning.operatorImage" -}}
{{- $image := .Values.images.operator -}}
{{- $image.repository }}:{{ include "gpu-fractioning.imageTag" (dict "root" . "image" $image) -}}
{{- end -}}

{{/* The names of the pull secrets, as one setting can hold them. */}}
{{- define "gpu-fractioning.pullSecretNames" -}}
{{- $names := list -}}
{{- range .Values.imagePullSecrets }}{{ $names = append $names .name }}{{ end -}}
{{- join "," $names -}}
{{- end -}}
