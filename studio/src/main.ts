import "leaflet/dist/leaflet.css";
import "./style.css";
import { Page } from "./page.ts";

new Page().start(location.origin);
