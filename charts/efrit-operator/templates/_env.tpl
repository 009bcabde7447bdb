{{/* The controller's whole configuration: it takes no arguments and reads no file. */}}
{{- define "efrit-operator.env" -}}
- name: EFRIT_OPERATOR_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
- name: EFRIT_POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
- name: EFRIT_WATCH_NAMESPACES
  value: {{ join "," .Values.watchNamespaces | quote }}
- name: EFRIT_OPERATOR_IMAGE
  value: {{ include "efrit-operator.image" . | quote }}
- name: EFRIT_EMACS_IMAGE
  value: {{ include "efrit-operator.emacsImage" . | quote }}
- name: EFRIT_IMAGE_PULL_POLICY
  value: {{ .Values.image.pullPolicy | quote }}
{{- $pullSecrets := list }}
{{- range .Values.imagePullSecrets }}
{{- $pullSecrets = append $pullSecrets .name }}
{{- end }}
- name: EFRIT_IMAGE_PULL_SECRETS
  value: {{ join "," $pullSecrets | quote }}
- name: EFRIT_IDENTITY_SECRET
  value: {{ include "efrit-operator.identitySecret" . | quote }}
- name: EFRIT_LEASE_NAME
  value: {{ include "efrit-operator.leaseName" . | quote }}
- name: EFRIT_HTTP_PORT
  value: {{ .Values.metrics.port | quote }}
- name: EFRIT_METRICS_AUTH
  value: {{ .Values.metrics.auth | quote }}
- name: EFRIT_METRICS_PORT
  value: {{ .Values.metrics.securePort | quote }}
- name: EFRIT_LOG_LEVEL
  value: {{ .Values.logging.level | quote }}
- name: EFRIT_LOG_FORMAT
  value: {{ .Values.logging.format | quote }}
- name: EFRIT_BRIDGE_RESOURCES
  value: {{ .Values.bridge.resources | toJson | quote }}
- name: EFRIT_EMACS_RESOURCES
  value: {{ .Values.emacs.resources | toJson | quote }}
- name: EFRIT_QUEUE_TIMEOUT_SECONDS
  value: {{ .Values.requests.queueTimeoutSeconds | quote }}
- name: EFRIT_REQUEST_TTL_SECONDS
  value: {{ .Values.requests.ttlSecondsAfterFinished | int64 | quote }}
- name: EFRIT_REQUESTER
  value: {{ include "efrit-operator.requesterApi" . | empty | not | quote }}
- name: EFRIT_ROLLOUT_MAX_CONCURRENT
  value: {{ .Values.rollout.maxConcurrent | quote }}
- name: EFRIT_ROLLOUT_MAX_CONCURRENT_PER_NAMESPACE
  value: {{ .Values.rollout.maxConcurrentPerNamespace | quote }}
- name: EFRIT_ROLLOUT_MAX_HOLD_SECONDS
  value: {{ .Values.rollout.maxHoldSeconds | quote }}
- name: EFRIT_ROLLOUT_PROGRESS_DEADLINE_SECONDS
  value: {{ .Values.rollout.progressDeadlineSeconds | quote }}
{{- end -}}
