
if ! declare -F _get_comp_words_by_ref >/dev/null; then
    __keywright_init_completion() {
        local line=${COMP_LINE:0:COMP_POINT}
        read -ra words <<<"$line"
        [[ $line == *[[:space:]] ]] && words+=("")
        cword=$((${#words[@]} - 1)) cur=${words[-1]}
    }
fi
