{{- define "keywright.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "keywright.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "keywright.labels" -}}
{{ include "keywright.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "keywright.image" -}}
{{- with .Values.image -}}
{{- .repository -}}
{{- if .digest -}}@{{ .digest }}{{- else -}}:{{ default $.Chart.AppVersion .tag }}{{- end -}}
{{- end -}}
{{- end -}}

{{- /* RATIONALE.md says why there is a number with autoscaling until the autoscaler has set one. */ -}}
{{- define "keywright.replicas" -}}
{{- if not .Values.autoscaling.enabled -}}
{{- .Values.replicas -}}
{{- else -}}
{{- $running := lookup "apps/v1" "Deployment" .Release.Namespace (include "keywright.fullname" .) -}}
{{- $scaled := not $running -}}
{{- range dig "metadata" "managedFields" list $running -}}
{{- $scaled = or $scaled (eq (default "" .subresource) "scale") -}}
{{- end -}}
{{- if not $scaled -}}
{{- max .Values.autoscaling.minReplicas (dig "spec" "replicas" 1 $running) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Nine tenths of the memory limit, in MiB. */ -}}
{{- define "keywright.goMemoryLimit" -}}
{{- $limit := .Values.resources.limits.memory -}}
{{- $unit := ternary 1024 1 (hasSuffix "Gi" $limit) -}}
{{- div (mul 9 $unit (regexFind "^[0-9]+" $limit | atoi)) 10 -}}MiB
{{- end -}}
