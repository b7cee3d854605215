export const title = "Soon";
export async function show({ page }) { page.textContent = ""; }
