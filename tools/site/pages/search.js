// The search. It loads pagefind when somebody types, without its worker, to which the policy of the page would not apply.
const form = document.querySelector("[role=search]"), input = form.querySelector("input"), found = document.querySelector("#Found")
const most = 8
let pagefind

form.hidden = false
form.addEventListener("submit", event => event.preventDefault())
input.addEventListener("input", async () => {
	const words = input.value.trim()
	if (!words) {
		found.hidden = true
		return
	}
	pagefind ??= load()
	const search = await (await pagefind).debouncedSearch(words, {}, 120)
	if (!search) return // there is more input
	const pages = await Promise.all(search.results.slice(0, most).map(result => result.data()))
	if (input.value.trim() === words) show(words, search.results.length, pages)
})
document.addEventListener("keydown", event => {
	if (event.key === "Escape" && !found.hidden) {
		found.hidden = true
		input.focus()
	}
})

async function load() {
	const module = await import("./pagefind/pagefind.js")
	await module.options({noWorker: true})
	return module
}

// show lists the best section of each page.
function show(words, total, pages) {
	const status = document.createElement("p")
	status.role = "status"
	status.textContent = total ? `${total} ${total === 1 ? "page has" : "pages have"} “${words}”` : `No page has “${words}”`
	const list = document.createElement("ol")
	for (const page of pages) {
		const best = page.sub_results.reduce((a, b) => b.locations.length > a.locations.length ? b : a, page.sub_results[0])
		const item = document.createElement("li"), link = document.createElement("a"), text = document.createElement("p")
		link.href = best.url
		link.textContent = best.title === page.meta.title ? best.title : `${page.meta.title} › ${best.title}`
		text.innerHTML = best.excerpt // of the index, which is part of the site
		item.append(link, text)
		list.append(item)
	}
	found.replaceChildren(status, list)
	found.hidden = false
}
