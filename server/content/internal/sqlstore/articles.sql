WITH sections AS NOT MATERIALIZED (
	SELECT activity, id, articles, CAST(sum(articles) OVER (ORDER BY activity DESC, id DESC ROWS UNBOUNDED PRECEDING) AS BIGINT) AS so_far
	FROM article_sections
), section AS MATERIALIZED (
	SELECT activity, id, so_far - articles AS before FROM sections WHERE so_far > $1 AND so_far - articles <= $1 LIMIT 1
), chunks AS NOT MATERIALIZED (
	SELECT activity, id, articles, CAST(sum(articles) OVER (ORDER BY activity DESC, id DESC ROWS UNBOUNDED PRECEDING) AS BIGINT)
		+ (SELECT before FROM section) AS so_far
	FROM article_chunks WHERE (activity, id) <= (COALESCE((SELECT activity FROM section), ''), COALESCE((SELECT id FROM section), ''))
), chunk AS MATERIALIZED (
	SELECT activity, id, so_far - articles AS before FROM chunks WHERE so_far > $1 AND so_far - articles <= $1 LIMIT 1
), page AS MATERIALIZED (
	SELECT activity, id FROM articles
	WHERE NOT trashed AND (activity, id) <= (COALESCE((SELECT activity FROM chunk), ''), COALESCE((SELECT id FROM chunk), ''))
	ORDER BY activity DESC, id DESC
	LIMIT ($2 + 0) OFFSET COALESCE($1 - (SELECT before FROM chunk), 0)
)
SELECT (SELECT record FROM articles WHERE articles.id = page.id), activity FROM page ORDER BY activity DESC, id DESC
