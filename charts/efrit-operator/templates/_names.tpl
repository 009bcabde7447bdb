{{/* Names, labels and images: whatever more than one object must agree on. */}}

{{/* 52 characters leave room for the longest suffix within the 63 of a DNS label. */}}
{{- define "efrit-operator.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* What the controller's pods are found by. Instances' network policies let in pods of this name: keep it. */}}
{{- define "efrit-operator.selectorLabels" -}}
app.kubernetes.io/name: efrit-operator
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: controller
{{- end -}}

{{- define "efrit-operator.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "efrit-operator.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: efrit
{{- end -}}

{{- define "efrit-operator.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "efrit-operator.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{- define "efrit-operator.identitySecret" -}}
{{- .Values.identity.secretName | default (printf "%s-identity" (include "efrit-operator.fullname" .)) -}}
{{- end -}}

{{- define "efrit-operator.leaseName" -}}
{{- include "efrit-operator.fullname" . -}}
{{- end -}}

{{/* Called with (dict "value" <its name> "image" <repository, tag, digest> "tag" <default tag>). */}}
{{- define "efrit-operator.reference" -}}
{{- if not .image.repository -}}
{{- fail (printf "%s.repository is required: no registry publishes the image, and a name without a registry would be looked up at a public one, where anybody may have claimed it. Build the image and name your own registry: see docs/install.md." .value) -}}
{{- end -}}
{{- if .image.digest -}}
{{- printf "%s@%s" .image.repository .image.digest -}}
{{- else -}}
{{- printf "%s:%s" .image.repository (.image.tag | default .tag) -}}
{{- end -}}
{{- end -}}

{{- define "efrit-operator.image" -}}
{{- include "efrit-operator.reference" (dict "value" "image" "image" .Values.image "tag" .Chart.AppVersion) -}}
{{- end -}}

{{- define "efrit-operator.emacsImage" -}}
{{- include "efrit-operator.reference" (dict "value" "emacsImage" "image" .Values.emacsImage "tag" (printf "30-%s" .Chart.AppVersion)) -}}
{{- end -}}

{{/* As a list in CEL. */}}
{{- define "efrit-operator.pullSecretNames" -}}
{{- $names := list }}
{{- range .Values.imagePullSecrets }}
{{- $names = append $names .name }}
{{- end }}
{{- $names | toJson -}}
{{- end -}}

{{/* Labels of a pod: the user's win over the descriptive ones, never over those that selectors rely on. */}}
{{- define "efrit-operator.podLabels" -}}
{{- $selected := include "efrit-operator.selectorLabels" . | fromYaml -}}
{{- $described := include "efrit-operator.labels" . | fromYaml -}}
{{- merge (dict) $selected .Values.podLabels $described | toYaml -}}
{{- end -}}


{{/* The MCP server's pods. Another name than the controller's, which alone is let in to the bridges. */}}
{{- define "efrit-operator.mcpSelectorLabels" -}}
app.kubernetes.io/name: efrit-mcp
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: mcp
{{- end -}}

{{- define "efrit-operator.mcpLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "efrit-operator.mcpSelectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: efrit
{{- end -}}

{{- define "efrit-operator.mcpName" -}}
{{- include "efrit-operator.fullname" . -}}-mcp
{{- end -}}
