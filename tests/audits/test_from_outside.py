"""The audit from outside: command line, browser, trainers, two processes."""

import json
import shutil
import sys
import types

import numpy as np
import pytest
import torch
import torch.distributed
import torch.multiprocessing
from commands import droptics
from networks import regression_data, regression_net, seeded
from safetensors.torch import save_file
from torch import nn

from droptics.audits import audit, audit_numbers, huggingface_callback, lightning_callback

FACTORY = """
from torch import nn

def classifier():
    return nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Dropout(0.4), nn.Linear(12, 3)).double()

number = 3
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("audit")
    (place / "audited_nets.py").write_text(FACTORY)
    x, y = regression_data()
    np.savez(place / "data.npz", inputs=x.numpy(), targets=y.numpy())
    np.savez(place / "labels.npz", inputs=x.numpy(), targets=(y.argmax(1)).numpy())
    (place / "parts").mkdir()
    np.savez(place / "parts" / "a.npz", inputs=x[:20].numpy(), targets=y[:20].numpy())
    np.savez(place / "parts" / "b.npz", inputs=x[20:].numpy(), targets=y[20:].numpy())
    save_file(regression_net().state_dict(), place / "state.safetensors")
    torch.save({name: 2 * value for name, value in regression_net().state_dict().items()}, place / "other.pt")
    program = torch.export.export(regression_net().train(), (x,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    torch.export.save(program, place / "net.pt2")
    (place / "broken.pt2").write_bytes(b"no archive")
    return place


def test_command_line_equals_the_library(folder):
    options = ["--state", "state.safetensors", "--data", "data.npz", "--json"]
    done = droptics("audit", "audited_nets:classifier", *options, cwd=folder)
    assert done.returncode == 0, done.stderr
    expected = audit(regression_net(), regression_data())
    found = json.loads(done.stdout)
    assert found["sites"][0]["penalty"]["value"] == pytest.approx(expected.sites[0].penalty.value, rel=1e-12)
    parts = droptics("audit", "audited_nets:classifier", *options[:2], "--data", "parts", "--json", cwd=folder)
    assert json.loads(parts.stdout)["clean_loss"] == pytest.approx(found["clean_loss"], rel=1e-12)


def test_exported_modules_and_two_checkpoints(folder):
    exported = droptics("audit", "net.pt2", "--data", "data.npz", "--html", "out/report.html", cwd=folder)
    assert exported.returncode == 0, exported.stderr
    assert "exact" in exported.stdout
    assert (folder / "out" / "report.html").exists()
    options = ["--state", "state.safetensors", "--data", "labels.npz", "--loss", "cross-entropy"]
    compared = droptics("audit", "audited_nets:classifier", *options, "--against", "other.pt", cwd=folder)
    assert compared.returncode == 0, compared.stderr
    assert "this network against the other" in compared.stdout


def test_a_network_without_a_loss_is_an_error_for_scripts(folder):
    state = regression_net().state_dict()
    state["0.weight"][0, 0] = float("nan")
    save_file(state, folder / "spoiled.safetensors")
    done = droptics(
        "audit", "audited_nets:classifier", "--state", "spoiled.safetensors", "--data", "data.npz", cwd=folder
    )
    assert done.returncode == 1
    assert "DR001" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["absent.pt2", "--data", "data.npz"], "absent.pt2 does not exist"),
        (["broken.pt2", "--data", "data.npz"], "cannot be read as an archive"),
        (["audited_nets:missing", "--data", "data.npz"], "has no class or function called 'missing'"),
        (["audited_nets:number", "--data", "data.npz"], "has no class or function called 'number'"),
        (["nowhere_at_all:net", "--data", "data.npz"], "cannot be imported"),
        (["audited_nets:classifier", "--data", "absent.npz"], "absent.npz does not exist"),
        (["audited_nets:classifier", "--data", "out"], "holds no .npz"),
        (["audited_nets:classifier", "--state", "data.npz", "--data", "data.npz"], "cannot be read as a state dict"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_two(folder, arguments, message):
    (folder / "out").mkdir(exist_ok=True)
    done = droptics("audit", *arguments, cwd=folder)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_lightning_callback_logs_per_epoch():
    logged = []
    network = regression_net()
    network.log_dict = logged.append
    callback = lightning_callback(regression_data(), every=2, draws=2)
    for epoch, told in enumerate((0, 1, 1, 2)):  # they count from zero
        callback.on_train_epoch_end(types.SimpleNamespace(current_epoch=epoch), network)
        assert len(logged) == told
    assert 0 < logged[0]["dropout/2/penalty_share"] < 1
    assert set(logged[0]) == set(audit_numbers(callback.last))
    assert logged[-1]["dropout/training_loss"] == callback.last.training_loss.value
    assert logged[-1]["dropout/clean_loss"] == callback.last.clean_loss < logged[-1]["dropout/training_loss"]


def test_huggingface_callback_appends_to_the_log_history():
    state = types.SimpleNamespace(epoch=1.0, global_step=10, log_history=[])
    seen = []
    callback = huggingface_callback(regression_data(), draws=2, log=seen.append)
    callback.on_epoch_end(None, state, None, model=regression_net())
    assert state.log_history[0]["dropout/2/coadaptation"] == seen[0]["dropout/2/coadaptation"]
    callback = huggingface_callback(regression_data(), every=2, draws=2, log=seen.append)
    for epoch, told in ((1.0, 1), (2.0, 2), (3.0, 2), (4.0, 3)):
        callback.on_epoch_end(None, types.SimpleNamespace(**{**vars(state), "epoch": epoch}), None, regression_net())
        assert len(seen) == told


def _shard(rank, folder):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    x, y = regression_data()
    part = slice(0, 20) if rank == 0 else slice(20, 50)
    report = audit(regression_net(), (x[part], y[part]), distributed=True, draws=2)
    (folder / f"{rank}.json").write_text(report.to_json())
    torch.distributed.destroy_process_group()


@pytest.mark.slow
def test_two_shards_merge_exactly(tmp_path):
    torch.multiprocessing.start_processes(_shard, (tmp_path,), nprocs=2, start_method="spawn")
    first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1))
    assert first == second
    whole = json.loads(audit(regression_net(), regression_data(), draws=2).to_json())
    for pick in (
        lambda r: r["clean_loss"],
        lambda r: r["sites"][0]["penalty"]["value"],
        lambda r: r["sites"][0]["certificate"]["bound"],
        lambda r: r["sites"][0]["units"]["imbalance"],
        lambda r: r["sites"][0]["spectrum"]["measured"][0],
    ):
        assert pick(first) == pytest.approx(pick(whole), rel=1e-10)
    assert first["examples"] == 50


@pytest.fixture
def browser(tmp_path):
    if shutil.which("chromium") is None or shutil.which("chromedriver") is None:
        pytest.skip("needs Chromium and its driver")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    flags = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run")
    for flag in (*flags, f"--user-data-dir={tmp_path / 'profile'}"):
        options.add_argument(flag)
    options.binary_location = shutil.which("chromium")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    yield driver
    driver.quit()


@pytest.mark.slow
def test_page_in_a_real_browser(tmp_path, browser):
    network = nn.Sequential(
        *regression_net()[:3], nn.Linear(12, 5), nn.Tanh(), nn.Dropout(0.2), nn.Linear(5, 3)
    ).double()
    page = audit(network, regression_data(), draws=2, validation=regression_data()).to_html(tmp_path / "report.html")
    for width in (380, 1200):
        browser.set_window_size(width, 900)
        browser.get(page.as_uri())
        assert browser.get_log("browser") == []
        inner = browser.execute_script("return document.documentElement.scrollWidth - window.innerWidth")
        assert inner <= 0, "the page does not scroll sideways"
    script = "return [...document.querySelectorAll('svg')].map(i => i.getBoundingClientRect().width)"
    assert min(browser.execute_script(script)) > 0
    script = "return [...document.querySelectorAll('svg')].every(i => i.getAttribute('aria-label').length > 20)"
    assert browser.execute_script(script)
    assert browser.execute_script("return document.documentElement.lang") == "en"
    assert browser.execute_script("return document.querySelectorAll('h1').length") == 1
    slider = browser.find_element("css selector", ".slider")
    assert slider.is_displayed()
    before = slider.find_element("css selector", ".loss").text
    browser.execute_script(
        "const i = arguments[0].querySelector('input'); i.value = i.max; i.dispatchEvent(new Event('input'))", slider
    )
    assert slider.find_element("css selector", ".loss").text != before
    assert sys.getsizeof(page.read_bytes()) < 6_000_000


@pytest.mark.slow
def test_many_sites_are_folded_and_filtered_by_keyboard(tmp_path, browser):
    from selenium.webdriver.common.keys import Keys

    layers = [nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.1), nn.Tanh(), nn.Dropout1d(0.1)) for _ in range(7)]
    network = seeded(nn.Sequential(*layers, nn.Linear(6, 3))).double()
    x, y = regression_data()
    page = audit(network, (x[:, None], y[:, None]), draws=2, rates=(), progress=False).to_html(tmp_path / "many.html")
    for width in (380, 1200):
        browser.set_window_size(width, 900)
        browser.get(page.as_uri())
        assert browser.get_log("browser") == []
        assert browser.execute_script("return document.documentElement.scrollWidth - window.innerWidth") <= 0

    def rows():
        return [row for row in browser.find_elements("css selector", "tr[data-name]") if row.is_displayed()]

    status = browser.find_element("id", "shown")
    assert status.text == "14 of 14 sites shown"
    assert not rows(), "groups are folded first"
    fold = browser.find_element("css selector", "button.fold")
    assert fold.get_attribute("aria-expanded") == "false"
    fold.send_keys(Keys.ENTER)
    assert fold.get_attribute("aria-expanded") == "true"
    assert len(rows()) == 7
    for key, count in ((Keys.ENTER, 14), (Keys.SPACE, 0), (Keys.ENTER, 14)):
        browser.find_element("id", "fold-all").send_keys(key)
        assert len(rows()) == count
    browser.find_element("id", "by-kind").send_keys("dropout1d")
    assert status.text == "7 of 14 sites shown"
    browser.find_element("id", "by-name").send_keys("3.3")
    assert [row.get_attribute("data-name") for row in rows()] == ["3.3"]
    rows()[0].find_element("css selector", "a").send_keys(Keys.ENTER)
    section = browser.switch_to.active_element.find_element("xpath", "..")
    assert section.get_attribute("open")
    assert "3.3" in section.text
