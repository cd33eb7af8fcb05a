#compdef rdmalink
# zsh completion for rdmalink

_rdmalink() {
	local line
	local -a found
	for line in "${(@f)$("${words[1]}" completion words -- "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
		[[ -n $line ]] || continue
		if [[ $line == *$'\t'* ]]; then
			found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
		else
			found+=("${line//:/\\:}")
		fi
	done
	_describe rdmalink found
}

if [[ ${funcstack[1]} == _rdmalink ]]; then
	_rdmalink "$@"
else
	compdef _rdmalink rdmalink
fi
