{{- define "env" -}}
{{- range $i := until $.n }}
{{- printf "- {name: V%d, value: a}" $i | nindent 4 }}
{{- end }}
{{- end }}
